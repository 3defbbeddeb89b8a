"""The run that this thread (or greenlet) is in, for whoever is called from inside it: the door, the result backend."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celeriac.run.run import Run

_current: ContextVar[Run | None] = ContextVar("celeriac_run", default=None)


def current() -> Run | None:
    """The run that is under way here, or ``None`` outside of one."""
    return _current.get()


def current_of(task_id: str) -> Run | None:
    """The run under way here if it is the one of *task_id*: what it sends under its own id is a wish, not a job."""
    run = _current.get()
    return run if run is not None and run.claimed.public_id == task_id else None
