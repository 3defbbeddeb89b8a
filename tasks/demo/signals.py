"""Being told to stop, from the terminal or by whoever started us."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupting() -> Iterator[None]:
    """Have every request to stop raise KeyboardInterrupt inside the block.

    SIGINT is among them because a shell's background job starts with it ignored.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {signum: signal.signal(signum, interrupt) for signum in _STOPS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def held_off() -> Iterator[None]:
    """Let nothing interrupt the block: it is the one that stops things, and has limits of its own."""
    before = {signum: signal.signal(signum, signal.SIG_IGN) for signum in _STOPS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
