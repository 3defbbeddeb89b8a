"""Ids of jobs: time-ordered when we make them, so that an index of them grows at its end."""

from __future__ import annotations

import os
import time
import uuid
from typing import Final

#: Namespace under which a caller's own id that is no UUID becomes one (``Job.alias`` keeps the text).
ALIAS_NAMESPACE: Final = uuid.UUID("6f0a4a0e-52a9-5a3e-9d0b-7c6b0f3a2d11")


def new() -> str:
    """A new UUID, version 7 (RFC 9562: 48 bits of milliseconds, then random bits), as text."""
    millis = time.time_ns() // 1_000_000
    value = (millis & 0xFFFFFFFFFFFF) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def to_uuid(task_id: str) -> tuple[uuid.UUID, str | None]:
    """A task id as UUID, and its own text where it isn't one (or isn't written the usual way), else ``None``."""
    try:
        parsed = uuid.UUID(task_id)
    except ValueError:
        return uuid.uuid5(ALIAS_NAMESPACE, task_id), task_id
    if str(parsed) == task_id:
        return parsed, None
    # "urn:uuid:…", braces, upper case: the caller must get back what it gave, so the text is kept.
    return uuid.uuid5(ALIAS_NAMESPACE, task_id), task_id
