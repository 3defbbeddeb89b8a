"""Ids of jobs: time-ordered when we make them, so that an index of them grows at its end."""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import Final

#: Namespace under which a caller's own id that is no UUID becomes one (``Job.alias`` keeps the text).
ALIAS_NAMESPACE: Final = uuid.UUID("6f0a4a0e-52a9-5a3e-9d0b-7c6b0f3a2d11")


class _Randomness(threading.local):
    """The system's random bytes, fetched 4 KiB at a time: a system call an id costs more than the id. Never shared with a forked child."""

    pid = -1
    left = b""

    def take(self, count: int) -> bytes:
        if len(self.left) < count or self.pid != os.getpid():
            self.pid, self.left = os.getpid(), os.urandom(4096)
        taken, self.left = self.left[:count], self.left[count:]
        return taken


_randomness = _Randomness()


def new() -> str:
    """A new UUID, version 7 (RFC 9562: 48 bits of milliseconds, then random bits), as text."""
    millis = time.time_ns() // 1_000_000
    random = _randomness.take(10).hex()
    variant = "89ab"[int(random[0], 16) & 3]
    stamp = f"{millis & 0xFFFFFFFFFFFF:012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7{random[1:4]}-{variant}{random[4:7]}-{random[7:19]}"


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
