"""One page of memory that the children write and the worker's main process reads: who runs what, since when, under which limit.

A child owns one slot (by its index in the pool) and is its only writer, but for the word that says that it is to die. The reader may see a slot half-written: the writer therefore
clears ``job`` first and sets it last, and the reader reads twice and takes a slot only if both readings agree. What the
page says is a hint for killing; the ledger's guards (fence, incarnation, child pid) decide what is written.
"""

from __future__ import annotations

import mmap
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

SLOTS: Final = 1024
_FORMAT: Final = struct.Struct("qqddq")  # pid, fence, begun (monotonic), hard limit in seconds (0: none), body done
_JOB: Final = struct.Struct("q")
_SIZE: Final = 64
_BODY_DONE_AT: Final = 32
_DOOMED_AT: Final = 48
_RESTART_AT: Final = 56


@dataclass(frozen=True, slots=True)
class Entry:
    """What one child is at."""

    slot: int
    pid: int
    job: int
    fence: int
    begun: float
    limit: float
    body_done: bool
    restart: bool = False
    """Where its process can't be killed for one job: past its deadline the whole worker starts anew for it."""

    def overrun(self, now: float) -> float:
        """Seconds past the hard limit, 0 while it holds. A body that is done can't overrun: its outcome is on the way."""
        return max(0.0, now - self.begun - self.limit) if self.limit and not self.body_done else 0.0


class Page:
    """The shared page. Made before the pool forks; anonymous, so nothing is left behind."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SLOTS * _SIZE)
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    @contextmanager
    def slot(self, index: int | None) -> Iterator[int]:
        """The slot of pool child *index*; absent, for a run in a thread or a greenlet of the main process, one that no other run has now."""
        if index is not None:
            yield index
            return
        with self._lock:
            found = next((n for n in range(SLOTS) if n not in self._taken), SLOTS - 1)
            self._taken.add(found)
        try:
            yield found
        finally:
            with self._lock:
                self._taken.discard(found)

    def begin(self, slot: int, pid: int, job: int, fence: int, limit: float | None, *, restart: bool = False) -> None:
        """Child *pid* has claimed *job* and enters the body."""
        at = (slot % SLOTS) * _SIZE
        _JOB.pack_into(self._memory, at + 40, 0)
        _FORMAT.pack_into(self._memory, at, pid, fence, time.monotonic(), limit or 0.0, 0)
        _JOB.pack_into(self._memory, at + _DOOMED_AT, 0)
        _JOB.pack_into(self._memory, at + _RESTART_AT, int(restart))
        _JOB.pack_into(self._memory, at + 40, job)

    def body_done(self, slot: int) -> None:
        """The body is over: from here on only the settle is under way, and no limit fires."""
        _JOB.pack_into(self._memory, (slot % SLOTS) * _SIZE + _BODY_DONE_AT, 1)

    def idle(self, slot: int) -> None:
        """The child is between jobs."""
        _JOB.pack_into(self._memory, (slot % SLOTS) * _SIZE + 40, 0)

    def doom(self, pid: int | None = None) -> None:
        """The main process is about to tell child *pid* (absent: every child) to die, job or no job."""
        for entry in self.entries():
            if pid in (None, entry.pid):
                _JOB.pack_into(self._memory, entry.slot * _SIZE + _DOOMED_AT, 1)

    def doomed(self, slot: int) -> bool:
        """Whether the child of *slot* was told so during the job that it is at. Asked by the child."""
        return bool(_JOB.unpack_from(self._memory, (slot % SLOTS) * _SIZE + _DOOMED_AT)[0])

    def forget(self, pid: int) -> None:
        """Child *pid* is dead; its slot says so until another child takes it over. Called by the main process."""
        for entry in self.entries():
            if entry.pid == pid:
                self.idle(entry.slot)

    def read(self, slot: int) -> Entry | None:
        """What the child of *slot* is at, ``None`` when it is idle or writing."""
        at = slot * _SIZE
        job = _JOB.unpack_from(self._memory, at + 40)[0]
        if not job:
            return None
        first = bytes(self._memory[at : at + _SIZE])
        if bytes(self._memory[at : at + _SIZE]) != first or _JOB.unpack_from(first, 40)[0] != job:
            return None
        pid, fence, begun, limit, done = _FORMAT.unpack_from(first, 0)
        return Entry(slot, pid, job, fence, begun, limit, bool(done), bool(_JOB.unpack_from(first, _RESTART_AT)[0]))

    def entries(self) -> list[Entry]:
        """Everything that runs now."""
        return [entry for slot in range(SLOTS) if (entry := self.read(slot)) is not None]
