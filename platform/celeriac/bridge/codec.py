"""Payloads and results as JSON text that any column can hold: kombu's JSON types, in ASCII.

ASCII escapes keep what PostgreSQL's ``text`` can't: NUL and lone surrogates. What JSON itself changes (tuples become lists, keys
become strings) is in ``docs/reference/celery-differences.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from kombu.utils import json

from celeriac import conf
from celeriac.errors import (
    PayloadNotSerialisable,
    PayloadTooLarge,
    PayloadUnreadable,
    ResultNotSerialisable,
    ResultTooLarge,
)

#: The parts of a payload beside args, kwargs and headers; kept under these names where they are given.
EMBED: Final = ("callbacks", "errbacks", "chain", "chord")

#: Made once: ``json.dumps`` with a class of its own makes an encoder for each call.
_compact = json.JSONEncoder(separators=(",", ":"))

# kombu keeps datetime, date, time, Decimal, UUID and bytes; a timedelta would be refused.
json.register_type(
    timedelta,
    "timedelta",
    lambda value: [value.days, value.seconds, value.microseconds],
    lambda parts: timedelta(*parts),
)


def encode_payload(
    args: Sequence[Any], kwargs: Mapping[str, Any], embed: Mapping[str, Any], headers: Mapping[str, Any]
) -> str:
    """The payload column of a job. What is absent or empty takes no byte.

    Raises:
        PayloadNotSerialisable: names the path of the value that JSON can't keep.
        PayloadTooLarge: names the largest part.
    """
    body: dict[str, Any] = {}
    if args:
        body["args"] = args
    if kwargs:
        body["kwargs"] = kwargs
    for part in EMBED:
        if embed.get(part):
            body[part] = embed[part]
    if headers:
        body["headers"] = headers
    try:
        encoded = _compact.encode(body)
    except (TypeError, ValueError, RecursionError) as exc:
        raise _culprit(body) or PayloadNotSerialisable("the payload", exc) from exc
    if '"__type__"' in encoded:
        disguised = _find(body, _is_disguised)
        if disguised is not None:
            raise PayloadNotSerialisable(*disguised)
    limit = conf.get("MAX_PAYLOAD_BYTES")
    if len(encoded) > limit:
        raise PayloadTooLarge(len(encoded), limit, _largest(body))
    return str(encoded)


def decode_payload(payload: str) -> dict[str, Any]:
    """The parts of a payload column.

    Raises:
        PayloadUnreadable: somebody has changed the row by hand, or a type was kept that this version doesn't know.
    """
    try:
        body = json.loads(payload)
    except (ValueError, TypeError) as exc:
        raise PayloadUnreadable(f"the stored arguments can't be read: {exc}") from exc
    if not isinstance(body, dict):
        raise PayloadUnreadable("the stored arguments are no JSON object")
    args, kwargs = body.setdefault("args", []), body.setdefault("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise PayloadUnreadable("the stored args must be a list and kwargs an object")
    body.setdefault("headers", {})
    return body


def encode_result(value: Any) -> str | None:
    """The result column. ``None`` takes no byte.

    Raises:
        ResultNotSerialisable: names the path of the value.
        ResultTooLarge: names the size and the limit.
    """
    if value is None:
        return None
    try:
        encoded = _compact.encode(value)
    except (TypeError, ValueError, RecursionError) as exc:
        found = _find(value, _is_unknown, "result")
        path, what = found or ("result", value)
        raise ResultNotSerialisable(
            f"{path} is a {type(what).__module__}.{type(what).__qualname__}, which JSON can't keep. Return plain data, or nothing."
        ) from exc
    if '"__type__"' in encoded and (disguised := _find(value, _is_disguised, "result")) is not None:
        raise ResultNotSerialisable(
            f"{disguised[0]} is a dict whose keys are __type__ and __value__: it would come back as another type. Use other keys."
        )
    limit = conf.get("MAX_RESULT_BYTES")
    if len(encoded) > limit:
        raise ResultTooLarge(
            f"The result is {len(encoded):,} bytes, more than the {limit:,} that CELERIAC['MAX_RESULT_BYTES'] allows. "
            "Store it elsewhere and return a reference."
        )
    return str(encoded)


def decode_result(encoded: str | None) -> Any:
    """The value of a result column."""
    return None if encoded is None else json.loads(encoded)


# ---- naming the culprit: only walked when something is wrong ------------------------------------------------------------


def _culprit(body: Mapping[str, Any]) -> PayloadNotSerialisable | None:
    found = _find(body, _is_unknown)
    return PayloadNotSerialisable(*found) if found else None


def _find(value: Any, wrong: Any, path: str = "", seen: tuple[int, ...] = ()) -> tuple[str, Any] | None:
    """Path and value of the first thing that *wrong* says yes to."""
    if wrong(value) or id(value) in seen or len(seen) > 200:
        return path or "the payload", value
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, (str, int, float, bool, type(None))):
                return f"{path} key {key!r}", key
            step = f"{path}[{key!r}]" if path else str(key)
            found = _find(item, wrong, step, (*seen, id(value)))
            if found:
                return found
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found = _find(item, wrong, f"{path}[{index}]", (*seen, id(value)))
            if found:
                return found
    return None


def _is_unknown(value: Any) -> bool:
    if isinstance(value, (Mapping, list, tuple)):
        return False
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return True
    return False


def _is_disguised(value: Any) -> bool:
    """A dict that would come back as another type: its keys are the ones that kombu keeps types under."""
    return isinstance(value, dict) and value.keys() == {"__type__", "__value__"}


def _largest(body: Mapping[str, Any]) -> str:
    parts = [(f"args[{i}]", v) for i, v in enumerate(body.get("args", ()))]
    parts += [(f"kwargs[{k!r}]", v) for k, v in body.get("kwargs", {}).items()]
    parts += [(k, body[k]) for k in (*EMBED, "headers") if k in body]
    name, value = max(parts, key=lambda part: len(json.dumps(part[1])))
    return f"{name} ({len(json.dumps(value)):,} bytes)"
