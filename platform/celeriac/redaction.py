"""Masks secrets in whatever leaves the database: messages, events, logs, error texts, the admin.

Pure: a :class:`Redactor` is built from names and patterns. Values under a secret *name* are masked whole; *patterns* are
masked wherever they stand in a text. Masking keeps the last two characters of long numbers so that two cases can be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

MASK: Final = "••••"

#: Names (whole, or one of their parts split at _ and -) whose values are never shown.
SECRET_NAMES: Final = frozenset(
    "password passwd passphrase pass pwd secret token apikey api_key access_key private_key authorization auth cookie session credential "
    "credentials card card_number cardno pan cvv cvc pin otp iban id_card idcard id_number ssn phone mobile msisdn".split()
)

# Order matters: the most specific first, or a card number is half eaten by the phone pattern.
# No open-ended repetition may begin at every character: on one long word (base64, hex) the search would be quadratic.
PATTERNS: Final[tuple[tuple[str, str], ...]] = (
    ("jwt", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}"),
    ("bearer", r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{8,}"),
    ("prefixed token", r"(?i)\b(?:sk|pk|rk|tok|key|ghp|gho|xox[abprs]|AKIA)[_-]?(?:live|test)?[_-]?[A-Za-z0-9_-]{12,}"),
    ("url credentials", r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"),
    ("e-mail", r"[\w.+-]{1,64}@[\w-]+\.[\w.-]+\w"),
    ("id card (CN)", r"(?<![\w-])[1-9]\d{5}(?:18|19|20)\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\d{3}[\dXx](?![\w-])"),
    # Letters may touch them ("tel138…", "card4111…"), hexadecimal ones of an id may not: ids are what people search for.
    ("card", r"(?<![\d.-])\d{13,19}(?![\d.-])|(?<![\w-])(?:\d[ -]?){13,19}(?<=\d)(?![\w-])|(?<!\d)(?:\d{4}[ ./\u00a0-]){3}\d{4}(?!\d)"),
    ("phone", r"(?<![0-9a-fA-F.])(?:\+\d{1,3}[ -]?)?1[3-9]\d{9}(?![0-9a-fA-F])"
              r"|(?<![\w.-])(?:\+\d{1,3}[ -]?)?\(?\d{3}\)?[ -]\d{3,4}[ -]\d{4}(?![\w-])|(?<!\w)\+\d{8,15}(?!\w)"),
    ("long hex", r"(?<![\w-])[0-9a-f]{40,}(?![\w-])"),
)  # fmt: skip


#: Characters of a text that are looked at. Twenty megabytes of an exception's message took ten seconds of a worker.
LONGEST: Final = 65_536


class Redactor:
    """Masks by *names* and *patterns* (regular expressions), both in addition to what is shipped."""

    def __init__(self, names: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._names = SECRET_NAMES | {name.lower() for name in names}
        self._patterns = [(label, re.compile(p)) for label, p in PATTERNS]
        self._patterns += [("project", re.compile(p)) for p in patterns]
        names_alternation = "|".join(sorted((re.escape(n) for n in self._names), key=len, reverse=True))
        # 'token': 'abc' in a repr, token="abc" in a call, "token": "abc" in JSON: what saferepr and tracebacks print.
        camel = "|".join(sorted((re.escape(n.capitalize()) for n in self._names), key=len, reverse=True))
        self._named_value = re.compile(
            rf"(?i)((?<![a-z0-9])(?:(?:[a-z0-9]+[_-]){{0,8}}(?:{names_alternation})|(?-i:[a-z][A-Za-z0-9]{{0,40}}(?:{camel})))"
            rf"(?:[_-][a-z0-9]+|(?-i:[A-Z][A-Za-z0-9]*))*['\"]?\s*[:=]\s*)"
            # With its scheme: masking only the first word of "Authorization: Bearer abc" would leave the token.
            r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?:(?:bearer|basic|digest|token)\s+)?[^\s,;)\]}'\"]+)"
        )

    def text(self, value: str) -> str:
        """*value* with everything that looks like a secret masked; what is longer than ``LONGEST`` is cut: it is for people to read."""
        if len(value) > LONGEST:
            value = value[:LONGEST] + "…"
        value = self._named_value.sub(lambda m: f"{m.group(1)}{MASK}", value)
        for label, pattern in self._patterns:
            value = pattern.sub(_last_two if label in _NUMBERS else MASK, value)
        return value

    def value(self, value: Any, depth: int = 8) -> Any:
        """A copy of plain data with secrets masked, for pages that show structure. Deeper than *depth* is cut."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            masked = self.text(str(value))
            return value if masked == str(value) else masked
        if depth <= 0:
            return "…"
        if isinstance(value, Mapping):
            return {
                self.text(str(k)): MASK if self.is_secret_name(k) else self.value(v, depth - 1)
                for k, v in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.value(item, depth - 1) for item in value]
        return self.text(str(value))

    def is_secret_name(self, name: object) -> bool:
        """Whether values under *name* are masked whole."""
        text = str(name)
        parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", text)
        return text.lower() in self._names or any(part.lower() in self._names for part in parts)


_NUMBERS: Final = frozenset({"card", "phone", "id card (CN)"})


def _last_two(match: re.Match[str]) -> str:
    digits = match.group().rstrip()
    return MASK + digits[-2:]


@lru_cache(maxsize=8)
def redactor(names: tuple[str, ...] = (), patterns: tuple[str, ...] = ()) -> Redactor:
    """The redactor for a project's additions; built once."""
    return Redactor(names, patterns)
