"""The embedded scheduler: ``celery worker`` is all that one must start.

Two schedulers stand ready in a fleet, whoever started them. A worker that finds a seat free books it and starts ``celery -A … scheduler`` for
it: executed, not forked, so that it shares nothing with the worker but its end. It is looked after: one that hangs or was stopped is killed,
one that ends is replaced, and one that can't start is tried again less and less often.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from celery.utils.log import get_logger

from celeriac.bridge import command
from celeriac.fleet import seats

logger = get_logger(__name__)

LOOK_EVERY: Final = 5.0
#: How long, and how often, a seat is looked for after our scheduler has ended: its seat is free a second after it was last kept.
HURRY_FOR: Final = 5.0
HURRY_EVERY: Final = 0.5
#: A scheduler that lived for so long had not failed to start. The next ones are tried after 5 s, 10 s, 20 s, ..., 5 min.
STARTED_IN: Final = 30.0
PAUSE_AT_MOST: Final = 300.0
#: A scheduler keeps its seat twice a second. So many looks in a row that find it silent for longer end it.
LOOK_AFTER_EVERY: Final = 1.0
SILENT: Final = 10.0
SILENT_LOOKS: Final = 6
#: One that has never sat down yet may still import the project.
SITS_DOWN_IN: Final = 60.0
#: A look that was answered later than this says nothing of the scheduler: the database rests.
PROMPT: Final = 0.5

#: Options of ``celery`` itself that take a value, before its sub-command.
_TAKES_VALUE: Final = frozenset({"-A", "--app", "-b", "--broker", "--result-backend", "--loader", "--config", "--workdir"})  # fmt: skip


def scheduler_command(orig_argv: list[str]) -> list[str] | None:
    """The command line of a scheduler for the app of the worker that was started by *orig_argv*; ``None`` where that isn't told by it."""
    skip = False
    for position, argument in enumerate(orig_argv[1:], 1):
        if skip:
            skip = False
        elif argument in _TAKES_VALUE:
            skip = True
        elif argument == "worker":
            return [*command.again(orig_argv[:position]), "scheduler"]
    return None


class Embedded:
    """Keeps one scheduler of ours in a seat while the fleet has one free. *host* and *pid* are the worker's.

    *ask* runs a function where it may use the ledger, and again while the database is away.
    """

    def __init__(self, host: str, pid: int, ask: Callable[[Callable[[], None]], None]) -> None:
        self._host = host
        self._pid = pid
        self._ask = ask
        self._command = scheduler_command(sys.orig_argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._now = self._began = 0.0
        self._next = 0.0
        self._hurries_until = 0.0
        self._failures = 0
        self._silent_looks = 0
        self._asking = False
        self._stopped = self._command is None
        if self._stopped:
            logger.info(
                "No scheduler is embedded: this worker was not started by `celery … worker`. Start `celery … scheduler`."
            )

    def look(self, now: float) -> None:
        """Called often, with the monotonic clock's time: notes the end of our scheduler, and asks the ledger where that is due."""
        self._now = now
        if self._stopped or self._asking:
            return
        if self._process is not None and self._process.poll() is not None:
            self._has_ended(now)
        if now < self._next:
            return
        self._asking = True
        if self._process is not None:
            self._next = now + LOOK_AFTER_EVERY
            self._ask(self._see_whether_it_goes_round)
        else:
            self._next = now + (HURRY_EVERY if now < self._hurries_until else LOOK_EVERY)
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

    def _has_ended(self, now: float) -> None:
        assert self._process is not None
        lived = now - self._began
        if lived >= STARTED_IN:
            self._failures = 0
            self._next, self._hurries_until = now, now + HURRY_FOR
            again = "looking for a free seat"
        else:
            pause = min(LOOK_EVERY * 2**self._failures, PAUSE_AT_MOST)
            self._failures += 1
            self._next = now + pause
            again = f"the next one is tried in {pause:g} s"
        logger.warning(
            "The embedded scheduler has ended with %s after %.0f s; %s", self._process.returncode, lived, again
        )
        self._process = None
        self._ask(self._give_the_booking_back)

    # ---- where the ledger may be used: while the database is away these raise, and are asked again; nothing else is asked meanwhile ------------

    def _fill_a_seat(self) -> None:
        seat = None if self._stopped or self._process is not None else seats.book(self._holder(self._pid))
        if seat is not None:
            assert self._command is not None
            try:
                process = subprocess.Popen(
                    [*self._command, "--seat", str(seat), "--parent", str(self._pid)],
                    stdin=subprocess.DEVNULL,
                    env=command.environment(),
                )
            except OSError:  # no memory, no process: the booking lapses, and somebody with more of it looks again
                logger.exception("The embedded scheduler could not be started")
            else:
                logger.info("A scheduler is embedded, in seat %s: process %s", seat, process.pid)
                self._began, self._silent_looks = self._now, 0
                self._process = process
        self._asking = False

    def _see_whether_it_goes_round(self) -> None:
        """A stopped or hanging scheduler holds its seat's lock for as long as it lives, and nobody else may sit there."""
        process = self._process
        if process is not None:
            asked = time.monotonic()
            silent = seats.silence(self._holder(process.pid))
            prompt = time.monotonic() - asked < PROMPT
            hangs = self._now - self._began > SITS_DOWN_IN if silent is None else silent > SILENT
            # In a row, and prompt: after a rest of the database, or of us both, it has had as much time as we.
            self._silent_looks = self._silent_looks + 1 if hangs and prompt else 0
            if self._silent_looks >= SILENT_LOOKS:
                since = "has never sat down" if silent is None else f"has not kept its seat for {silent:.0f} s"
                logger.error("The embedded scheduler (process %s) %s: it is killed", process.pid, since)
                process.kill()
        self._asking = False

    def _give_the_booking_back(self) -> None:
        """Where it ended before it sat down: nobody else need wait until the booking lapses."""
        seats.give_back(self._holder(self._pid))

    def _holder(self, pid: int) -> str:
        return f"{self._host}:{pid}"
