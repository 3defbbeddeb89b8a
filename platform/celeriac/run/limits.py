"""What may interrupt a run: the soft time limit, and nobody's SIGTERM but our own main process's.

The soft limit is an exception in the task, raised by a timer of its own process.

Celery's soft limit is sent by the pool's main process and ends with the pool's bookkeeping; ours runs from *begun* and ends with the body, in
every delivery. ``setitimer`` works in the main thread of a process only: pools of threads have no soft limit, and a check says so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
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


@contextmanager
def finish_first(doomed: Callable[[], bool]) -> Iterator[None]:
    """Let a pool child finish its job although SIGTERM reached it, unless *doomed* says that its main process sent it.

    A supervisor that stops a worker signals all of its processes at once (systemd's control groups do): the main process then waits for
    what runs, and the run must not end by an exception that is taken for a failure of the task.
    """
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def decide(signum: int, frame: FrameType | None) -> None:
        if doomed():
            before(signum, frame)

    signal.signal(signal.SIGTERM, decide)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
