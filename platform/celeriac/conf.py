"""Settings: one dict ``CELERIAC``, one table that says what each key means.

Read with :func:`get`, at the time of use, so that ``override_settings`` works and nothing is read at import. An
environment variable ``CELERIAC_<KEY>`` wins over the dict. ``celeriac.checks`` reports what :func:`problems` finds.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from django.conf import settings

from celeriac.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its default, its type or choices, its unit ("" where it has none) and what it does."""

    default: Any
    kind: type | tuple[str, ...]
    unit: str
    help: str
    minimum: float | None = None


SETTINGS: Final[dict[str, Setting]] = {
    "DATABASE": Setting("default", str, "alias", "Database alias of the ledger; the one your business data is in."),
    "ON_LOST": Setting("again", ("again", "review", "fail"), "", "What happens to a job without a Policy and without acks_late when its worker dies."),
    "ON_OTHER_DATABASE": Setting("warn", ("warn", "refuse"), "", "Enqueueing inside an atomic block of another database only."),
    "MAX_PAYLOAD_BYTES": Setting(1024 * 1024, int, "bytes", "Largest payload of one job.", 1024),
    "MAX_RESULT_BYTES": Setting(1024 * 1024, int, "bytes", "Largest result of one job.", 1024),
    "MAX_LOST": Setting(3, int, "deaths", "A job whose own process died so many times goes to the dead letters.", 1),
    "MIRROR_RESULTS": Setting(False, bool, "", "Also write how jobs end to django-celery-results' TaskResult, for code that queries it."),
    "ADOPT": Setting(True, bool, "", "Messages of plain Celery become jobs. Off: they run as plain Celery, outside the ledger."),
    "PLAIN_TASKS": Setting((), list, "names or globs", "Tasks that stay plain Celery, outside the ledger: ['reports.*']. `ledger=` of a task goes before it."),
    "QUEUES": Setting({}, dict, "queues", "Limits of a queue over the whole fleet: {'sms': {'concurrency': 8}} runs at most 8 of its jobs at once."),
    "TYPES": Setting({}, dict, "task types", "The same for a task type: {'shop.sms': {'concurrency': 2}}."),
    "STOP_GRACE": Setting(30.0, float, "seconds", "How long running jobs may go on after SIGTERM before they are handed back.", 0),
    "DEADLINE_GRACE": Setting(30.0, float, "seconds", "Added to the hard limit before the scheduler takes the job back itself.", 1),
    "BEAT_EVERY": Setting(0.5, float, "seconds", "Interval of a worker's heartbeat.", 0.1),
    "GONE_AFTER": Setting(1.0, float, "seconds", "No beat for so long and the witness lock free: the worker is gone.", 0.5),
    "STALL_AFTER": Setting(15.0, float, "seconds", "No beat for so long with the lock held: the worker is stalled, its jobs run elsewhere.", 2),
    "SETTLE_IN": Setting(5.0, float, "seconds", "Nobody is judged until the database and the scheduler's session are older.", 0),
    "LEASE_SECONDS": Setting(3.0, float, "seconds", "A scheduler that holds its lock but hasn't renewed for so long is replaced.", 1),
    "EMBED_SCHEDULER": Setting(True, bool, "", "Workers start a scheduler of their own while fewer than two stand ready."),
    "POLL_BUSY": Setting(0.001, float, "seconds", "Pause of the scheduler after a pass that found work: slots free up within milliseconds.", 0),
    "POLL_MIN": Setting(0.02, float, "seconds", "First pause of the scheduler when it has found no more work.", 0.001),
    "POLL_MAX": Setting(0.25, float, "seconds", "Longest pause of the scheduler while idle.", 0.01),
    "RESEND_AFTER": Setting(30.0, float, "seconds", "A dispatched job that nobody claimed is sent again after so long, doubling.", 1),
    "RESEND_AFTER_MAX": Setting(600.0, float, "seconds", "Upper bound of that delay.", 1),
    "RING": Setting(True, bool, "", "Wake the scheduler through the broker after a commit."),
    "SPOOL_DIR": Setting("", str, "path", "Where outcomes wait while the database is away. Empty: a private folder per database under /var/tmp."),
    "QUARANTINE_BYTES": Setting(65536, int, "bytes", "How much of a message that is no job is kept.", 256),
    "PREPARE_STATEMENTS": Setting(True, bool, "", "Prepare the ledger's hot statements; turn off behind a transaction-pooling proxy that can't."),
    "CONNECTION_MAX_AGE": Setting(3600.0, float, "seconds", "Age at which a worker's database connection is closed between jobs.", 0),
    "REDACT_KEYS": Setting((), list, "names", "Further argument names whose values never leave the database."),
    "REDACT_PATTERNS": Setting((), list, "regular expressions", "Further patterns that are masked wherever text leaves the database."),
    "LOG_FORMAT": Setting("auto", ("auto", "json", "human"), "", "Log format; auto is human on a terminal, JSON elsewhere."),
    "FLOWER_URL": Setting("", str, "URL", "Where Flower is, for links from the admin. Empty: no links."),
}  # fmt: skip


def get(key: str) -> Any:
    """The value in force for *key*, of the type the table says.

    Raises:
        ConfigurationError: the value can't be used; the message names the setting and the remedy.
    """
    setting = SETTINGS[key]
    env = os.environ.get(f"CELERIAC_{key}")
    if env is not None:
        return _from_text(key, setting, env)
    value = getattr(settings, "CELERIAC", {}).get(key, setting.default)
    if value is setting.default:
        return value
    if setting.kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    fault = _fault(key, setting, value)
    if fault:
        raise ConfigurationError(fault)
    return value


def alias() -> str:
    """Alias of the ledger's database. Short for ``get("DATABASE")``: it is asked for on every call."""
    return getattr(settings, "CELERIAC", {}).get("DATABASE", "default")  # type: ignore[no-any-return]


def spool_dir() -> str:
    """The folder of the outcome spool; not created here."""
    configured = str(get("SPOOL_DIR"))
    if configured:
        return configured
    database = settings.DATABASES[alias()]
    # Two projects of one user on one host must not replay each other's outcomes.
    identity = "|".join(str(database.get(part, "")) for part in ("ENGINE", "HOST", "PORT", "NAME"))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return os.path.join("/var/tmp", f"celeriac-{os.getuid()}", digest)  # noqa: S108  the spool refuses a folder of another user's


def problems() -> Iterator[tuple[str, str, str]]:
    """What is wrong with ``settings.CELERIAC``: (check id, message, hint)."""
    configured = getattr(settings, "CELERIAC", {})
    if not isinstance(configured, dict):
        yield "celeriac.E001", f"CELERIAC must be a dict, not {type(configured).__name__}.", "CELERIAC = {}"
        return
    for key, value in configured.items():
        setting = SETTINGS.get(key)
        if setting is None:
            near = get_close_matches(str(key), SETTINGS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "See docs/reference/settings.md for what there is."
            yield "celeriac.E002", f"CELERIAC[{key!r}] is not a setting.", hint
            continue
        fault = _fault(key, setting, float(value) if setting.kind is float and type(value) is int else value)
        if fault:
            yield "celeriac.E003", fault, f"{setting.help} Default: {setting.default!r}."
    sound = not any(_fault(k, SETTINGS[k], get_or_default(k)) for k in ("STALL_AFTER", "BEAT_EVERY"))
    if sound and get_or_default("STALL_AFTER") <= 4 * get_or_default("BEAT_EVERY"):
        yield (
            "celeriac.E004",
            "CELERIAC['STALL_AFTER'] must be more than four times CELERIAC['BEAT_EVERY'], or a busy worker is taken for a dead one.",
            "Leave both at their defaults (15 s and 0.5 s).",
        )


def get_or_default(key: str) -> Any:
    """The configured value, or the default, unchecked: for checks that compare two settings."""
    value = getattr(settings, "CELERIAC", {}).get(key, SETTINGS[key].default)
    return float(value) if SETTINGS[key].kind is float and type(value) is int else value


def _fault(key: str, setting: Setting, value: Any) -> str | None:
    kind: Any = setting.kind
    if isinstance(kind, tuple):
        if value not in kind:
            return f"CELERIAC[{key!r}] is {value!r}; choose one of {', '.join(map(repr, kind))}."
        return None
    if kind is list:
        if isinstance(value, str) or not isinstance(value, (list, tuple, set, frozenset)):
            return f"CELERIAC[{key!r}] must be a list of {setting.unit}, not {value!r}."
        return None
    if kind is dict:
        return _limits_fault(key, setting, value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        unit = f" ({setting.unit})" if setting.unit else ""
        return f"CELERIAC[{key!r}] must be {kind.__name__}{unit}, not {value!r}."
    if setting.minimum is not None and value < setting.minimum:
        return f"CELERIAC[{key!r}] is {value!r}; at least {setting.minimum:g} {setting.unit} is needed."
    return None


def _limits_fault(key: str, setting: Setting, value: Any) -> str | None:
    if not isinstance(value, dict) or not all(isinstance(limits, dict) for limits in value.values()):
        return f"CELERIAC[{key!r}] must be a dict of {setting.unit}, each with its limits, for example {{'sms': {{'concurrency': 8}}}}."
    for name, limits in value.items():
        for limit, number in limits.items():
            if limit != "concurrency":
                return f"CELERIAC[{key!r}][{name!r}] has no limit {limit!r}; there is 'concurrency'."
            if type(number) is not int or number < 1:
                return f"CELERIAC[{key!r}][{name!r}]['concurrency'] is {number!r}; it is a number of jobs, at least 1."
    return None


def _from_text(key: str, setting: Setting, text: str) -> Any:
    parse: dict[Any, Callable[[str], Any]] = {
        int: int,
        float: float,
        str: str,
        list: lambda t: t.split(","),
        dict: json.loads,
    }
    kind = setting.kind if isinstance(setting.kind, type) else str
    if kind is bool:
        if text.lower() not in ("1", "0", "true", "false", "yes", "no"):
            raise ConfigurationError(f"CELERIAC_{key}={text!r} in the environment: use true or false.")
        return text.lower() in ("1", "true", "yes")
    try:
        value = parse[kind](text)
    except ValueError:
        raise ConfigurationError(f"CELERIAC_{key}={text!r} in the environment is no {kind.__name__}.") from None
    fault = _fault(key, setting, value)
    if fault:
        raise ConfigurationError(fault.replace(f"CELERIAC[{key!r}]", f"CELERIAC_{key}"))
    return value
