"""Calls that were handed to a child of the pool which never begins with them: it was stopped, or hangs before it reads.

Celery waits for ever: the child's place is full, its job is neither running nor anybody else's. Killed, the pool hands the call to another.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection
from typing import Any, Final

from celery.utils.log import get_logger

logger = get_logger(__name__)

LOOK_EVERY: Final = 0.5
#: Seconds of our own looks. A child says that it has a call before it does anything else with it.
BEGINS_WITHIN: Final = 15.0


class Handed:
    """Looks at *calls*, what the pool returned for each call that is under way. *loop_turns*: whether the main loop goes round."""

    def __init__(self, calls: Callable[[], Collection[Any]], loop_turns: Callable[[], bool]) -> None:
        self._calls = calls
        self._loop_turns = loop_turns
        self._waited: dict[Any, float] = {}
        self._looked = float("-inf")

    def look(self, now: float) -> None:
        """Called often, with the monotonic clock's time."""
        passed = now - self._looked
        if passed < LOOK_EVERY:
            return
        self._looked = now
        # The main loop reads what children say: while it rests they have said nothing, for all we know.
        if not self._loop_turns():
            self._waited.clear()
            return
        calls = self._calls()
        # With `-O fast` calls wait for children that are at something.
        busy = {call._worker_pid for call in calls if getattr(call, "_accepted", False)}
        # Of a look that comes late no more than its share counts: we rested, and so may they have.
        passed = min(passed, 2 * LOOK_EVERY)
        waits = {call: child for call in calls if (child := _child_of(call)) is not None and child.pid not in busy}
        self._waited = {call: self._waited.get(call, 0.0) + passed for call in waits}
        for call, waited in self._waited.items():
            if waited >= BEGINS_WITHIN:
                logger.error(
                    "Child %s has not begun with what it was handed %.0f s ago: it is killed", waits[call].pid, waited
                )
                self._waited[call] = 0.0
                with contextlib.suppress(ProcessLookupError):
                    os.kill(waits[call].pid, signal.SIGKILL)


def _child_of(call: Any) -> Any | None:
    """The process that the pool has chosen for *call*, as long as it has not said that it has it."""
    if getattr(call, "_accepted", True):
        return None
    return call._write_to or call._scheduled_for
