"""Waiting for events, never for time: a limit is generous because reaching it is a failure."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT = 60.0  # seconds


def wait_until(
    predicate: Callable[[], T],
    timeout: float = LIMIT,
    *,
    what: str = "",
    every: float = 0.02,
    dump: Callable[[], str] | None = None,
) -> T:
    """Return the predicate's first true value.

    `timeout` and `every` are seconds. After the time-out it fails with `what` was awaited, the last value seen, and
    what `dump` has to say.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            story = f"\n{dump()}" if dump else ""
            raise AssertionError(f"not within {timeout:g} s: {what or predicate}; last seen: {value!r}{story}")
        time.sleep(every)
