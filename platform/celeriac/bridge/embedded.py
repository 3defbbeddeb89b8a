"""The embedded scheduler: ``celery worker`` is all that one must start.

Two schedulers stand ready in a fleet, whoever started them. A worker that finds a seat free books it and starts ``celery -A … scheduler`` for
it: executed, not forked, so that it shares nothing with the worker but its end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Final

from celery.utils.log import get_logger

from celeriac.fleet.seats import book

logger = get_logger(__name__)

LOOK_EVERY: Final = 5.0
#: Options of ``celery`` itself that take a value, before its sub-command.
_TAKES_VALUE: Final = frozenset(
    {"-A", "--app", "-b", "--broker", "--result-backend", "--loader", "--config", "--workdir"}
)


def scheduler_command(orig_argv: list[str]) -> list[str] | None:
    """The command line of a scheduler for the app of the worker that was started by *orig_argv*; ``None`` where that isn't told by it."""
    skip = False
    for position, argument in enumerate(orig_argv[1:], 1):
        if skip:
            skip = False
        elif argument in _TAKES_VALUE:
            skip = True
        elif argument == "worker":
            return [sys.executable, *orig_argv[1:position], "scheduler"]
    return None


class Embedded:
    """Keeps one scheduler of ours in a seat while the fleet has one free. *ask* runs a function where it may use the ledger."""

    def __init__(self, holder: str, pid: int, ask: Callable[[Callable[[], None]], None]) -> None:
        self._holder = holder
        self._pid = pid
        self._ask = ask
        self._command = scheduler_command(sys.orig_argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._looked = float("-inf")
        self._asking = False
        self._stopped = self._command is None
        if self._stopped:
            logger.info(
                "No scheduler is embedded: this worker was not started by `celery … worker`. Start `celery … scheduler`."
            )

    def look(self, now: float) -> None:
        """Called often; every five seconds, and when our scheduler has ended, a free seat is looked for."""
        if self._stopped or self._asking:
            return
        if self._process is not None:
            if self._process.poll() is None:
                return
            logger.warning("The embedded scheduler has ended with %s", self._process.returncode)
            self._process = None
        if now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        self._asking = True
        self._ask(self._fill_a_seat)

    def stop(self, seconds: float) -> None:
        """It steps down; after *seconds* it is killed."""
        self._stopped = True
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def pid(self) -> int | None:
        """Our scheduler's, while it lives."""
        return self._process.pid if self._process is not None else None

    def _fill_a_seat(self) -> None:
        # While the database is away this raises, and is asked again by whoever asks; nothing else is asked meanwhile.
        seat = None if self._stopped or self._process is not None else book(self._holder)
        if seat is not None:
            assert self._command is not None
            try:
                self._process = subprocess.Popen(
                    [*self._command, "--seat", str(seat), "--parent", str(self._pid)], stdin=subprocess.DEVNULL
                )
            except OSError:  # no memory, no process: the booking lapses, and somebody with more of it looks again
                logger.exception("The embedded scheduler could not be started")
            else:
                logger.info("A scheduler is embedded, in seat %s: process %s", seat, self._process.pid)
        self._asking = False
