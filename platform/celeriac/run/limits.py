"""The soft time limit: an exception in the task, raised by a timer of its own process.

Celery's soft limit is sent by the pool's main process and ends with the pool's bookkeeping; ours runs from *begun* and ends with the body, in
every delivery. ``setitimer`` works in the main thread of a process only: pools of threads have no soft limit, and a check says so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def soft_limit(seconds: float | None, error: type[BaseException]) -> Iterator[None]:
    """Raise *error* in the body after *seconds*. ``None``: no limit."""
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum: int, frame: FrameType | None) -> None:
        raise error(seconds)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
