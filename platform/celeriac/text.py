"""Text that a database column can hold: PostgreSQL's ``text`` refuses NUL, UTF-8 refuses lone surrogates."""

from __future__ import annotations


def storable(value: str, limit: int | None = None) -> str:
    """*value* with NUL and lone surrogates written as escapes, cut to *limit* characters (no limit when absent)."""
    value = value.replace("\x00", "\\x00")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        value = value.encode("utf-8", "backslashreplace").decode("utf-8")
    if limit is not None and len(value) > limit:
        return value[: limit - 1] + "…"
    return value


def safe_str(value: object, limit: int | None = None) -> str:
    """``str(value)``, storable; an object whose ``__str__`` raises is named instead."""
    try:
        text = str(value)
    except Exception as exc:  # any class can come from a user's __str__; the job's outcome must not depend on it
        text = f"<{type(value).__qualname__}: str() raised {type(exc).__qualname__}>"
    return storable(text, limit)
