"""A worker's eye on its own runs, in a thread of the main process: hard limits, the grace period, runs that are stuck, claims that were lost.

It kills first; the undertaker settles after the exit. A run that has no process of its own can't be killed: it is the deadline's then
(``fleet.rescue``), or the whole worker starts anew for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from celery.utils.log import get_logger

from celeriac import conf
from celeriac.bridge.undertaker import Undertaker
from celeriac.fleet.here import Here
from celeriac.fleet.memory import Memory
from celeriac.fleet.page import Entry
from celeriac.ledger import queries
from celeriac.outcomes import Ref

logger = get_logger(__name__)

LOOK_EVERY: Final = 0.05
SAMPLE_EVERY: Final = 0.5
CLAIMS_EVERY: Final = 2.0
LINGER: Final = 1.0


class Watch:
    """Looks at the page of *here*, and at what *children* are processes of the pool. *on_stuck* is told of a run to start anew for."""

    def __init__(
        self,
        here: Here,
        undertaker: Undertaker,
        memory: Memory,
        children: Callable[[], Collection[int]],
        *,
        each: Callable[[float], None],
        on_stuck: Callable[[Entry], None],
    ) -> None:
        self._here = here
        self._undertaker = undertaker
        self._memory = memory
        self._children = children
        self._each = each
        self._on_stuck = on_stuck
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="celeriac-watch", daemon=True)
        self._grace_ends: float | None = None
        self._sampled = 0.0
        self._claims_seen = 0.0
        self._stuck: set[tuple[int, int]] = set()
        self._unless: Callable[[], bool] | None = None
        self._idle_since: float | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End, soon."""
        self._ended.set()

    def grace(self, seconds: float) -> None:
        """What runs has so long; then it is killed and handed back. A later call can't make it longer."""
        ends = time.monotonic() + seconds
        if self._grace_ends is None or ends < self._grace_ends:
            self._grace_ends = ends

    def let_nobody_linger(self, unless: Callable[[], bool]) -> None:
        """The pool is being waited for: children that have been at nothing for a second are killed, *unless* something else says that they work."""
        self._unless = unless
        self._idle_since = None

    def kill(self, entry: Entry) -> None:
        """Kill the child of *entry*, unless it is at something else by now."""
        if self._here.page.read(entry.slot) != entry:
            return
        self._here.page.forget(entry.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(entry.pid, signal.SIGKILL)

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY):
            now = time.monotonic()
            entries = self._here.page.entries()
            for entry in entries:
                self._look_at(entry, now)
            if now - self._sampled >= SAMPLE_EVERY:
                self._sampled = now
                self._memory.sample([os.getpid(), *self._children()])
            if now - self._claims_seen >= CLAIMS_EVERY:
                self._claims_seen = now
                self._ask_for_claims(
                    [e for e in entries if now - e.begun > CLAIMS_EVERY and e.pid != self._here.main_pid]
                )
            if self._unless is not None:
                self._end_lingering(entries, self._unless, now)
            self._each(now)

    def _end_lingering(self, entries: Collection[Entry], unless: Callable[[], bool], now: float) -> None:
        if entries or unless():
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since >= LINGER:
            for pid in self._children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _look_at(self, entry: Entry, now: float) -> None:
        over = entry.overrun(now)
        if entry.pid == self._here.main_pid:
            if entry.restart and over > conf.get("DEADLINE_GRACE") and (entry.job, entry.fence) not in self._stuck:
                self._stuck.add((entry.job, entry.fence))
                self._on_stuck(entry)
        elif self._grace_ends is not None and now > self._grace_ends:
            logger.warning("The grace period is over: job %s is stopped and handed back", entry.job)
            self.kill(entry)
        elif over:
            logger.error("Hard time limit (%ss) exceeded by job %s in child %s", entry.limit, entry.job, entry.pid)
            self._undertaker.will_kill(entry)
            self.kill(entry)

    def _ask_for_claims(self, entries: Collection[Entry]) -> None:
        """Runs whose job was taken from us (revoked, past its deadline, released by a person) are cancelled: nothing of them would be kept."""
        if not entries:
            return

        def ask() -> None:
            refs = {Ref(entry.job, entry.fence): entry for entry in entries}
            own = queries.still_its_own(self._here.id, list(refs))
            for ref in refs.keys() - own:
                entry = refs[ref]
                if not entry.body_done:
                    logger.warning(
                        "Job %s was taken from this worker: its run in child %s is cancelled", ref.job, entry.pid
                    )
                    self.kill(entry)

        self._undertaker.write(ask)
