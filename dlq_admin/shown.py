"""Payloads as pages show them: readable JSON, masked or not, and what differs between two of them. Pure.

Every text that comes from here can be stored and encoded, and still reads as the same JSON: control characters are JSON's own escapes, and
so are lone surrogates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from celeriac import text
from celeriac.redaction import Redactor

#: Characters of a stored payload up to which it is masked and shown as structure.
LARGEST: Final = 64 * 1024
#: Lines up to which what differs is compared line by line.
MOST_LINES: Final = 500
_CONTEXT: Final = 3


class Unreadable(ValueError):
    """A stored payload that is no JSON, or nested too deeply to be read."""


def parse(stored: str) -> Any:
    """The JSON value in *stored*. Raises ``Unreadable``."""
    try:
        return json.loads(stored)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(str(exc)) from exc


def pretty(value: Any) -> str:
    """*value* as indented JSON in its own script; on one line where it is nested too deeply to be indented."""
    try:
        written = json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        # Indenting is done in Python and runs out of stack long before the C encoder, which only writes one line.
        written = json.dumps(value, ensure_ascii=False)
    return text.storable(written)


def arguments(stored: str) -> dict[str, Any]:
    """``args`` and ``kwargs`` of the stored payload. Raises ``Unreadable``."""
    payload = parse(stored)
    if not isinstance(payload, dict):
        raise Unreadable("the payload is no JSON object")
    return {"args": payload.get("args", []), "kwargs": payload.get("kwargs", {})}


def masked(stored: str, redactor: Redactor) -> str | None:
    """Arguments of the stored payload with secrets masked; ``None`` where it is too large or can't be read."""
    if len(stored) > LARGEST:
        # Never masked in part: a secret that is cut in two is no longer recognised.
        return None
    try:
        return pretty(redactor.value(arguments(stored)))
    except Unreadable:
        return None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a comparison."""

    kind: Literal["same", "added", "removed", "gap"]
    text: str


_GAP: Final = Line("gap", "⋮")


def difference(before: Any, after: Any) -> list[Line] | None:
    """What a person is about to change, with three lines around it; empty: nothing; ``None``: too much to compare."""
    old, new = pretty(before).splitlines(), pretty(after).splitlines()
    if old == new:
        return []
    # What is alike at both ends is cut off first: an edit is small, and the comparison takes time that grows with the product.
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    middle = old[start : len(old) - end], new[start : len(new) - end]
    if max(map(len, middle)) > MOST_LINES:
        return None
    return [
        *([_GAP] if start > _CONTEXT else []),
        *(Line("same", line) for line in old[max(0, start - _CONTEXT) : start]),
        *_compared(*middle),
        *(Line("same", line) for line in old[len(old) - end :][:_CONTEXT]),
        *([_GAP] if end > _CONTEXT else []),
    ]


def _alike(old: list[str], new: list[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))


def _compared(old: list[str], new: list[str]) -> Iterator[Line]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT)):
        if number:
            yield _GAP
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (Line("same", line) for line in old[old_from:old_to])
                continue
            yield from (Line("removed", line) for line in old[old_from:old_to])
            yield from (Line("added", line) for line in new[new_from:new_to])
