"""How a run ended, as values. The run hands one over, ``settle`` writes it; nothing in between touches the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from celeriac.asked import NewJob
from celeriac.states import Status


@dataclass(frozen=True, slots=True)
class Ref:
    """A job under one fence: the only handle a write after acceptance may use."""

    job: int
    fence: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, in strings: only strings cross process and storage borders."""

    code: str
    kind: str
    message: str
    traceback: str = ""
    fingerprint: str = ""
    """Code and top application frames, hashed: what failed alike has the same one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one claimed run ended.

    ``status`` is where the job goes, ``arrow`` the move that takes it there. ``delay``: seconds until it is due again (RETRY, PENDING). ``payload``: new arguments
    a retry asked for. ``result``: JSON text. ``sends``: jobs
    that the tracer wanted to send (links, the next step of a chain): written with a settled success, dropped otherwise.
    """

    ref: Ref
    task_id: str
    task_type: str
    queue: str
    status: Status
    arrow: str
    result: str | None = None
    failure: Failure | None = None
    delay: float = 0.0
    run_at: datetime | None = None
    """Wins over ``delay`` where a retry named a moment."""
    retry_count: int | None = None
    payload: str | None = None
    parked_reason: str | None = None
    reason: str = ""
    sends: tuple[NewJob, ...] = ()
    replaced_by: tuple[str, str] | None = None
    """Another task type and queue that take this job's place."""
    seconds: float | None = None
    trace_id: str | None = None
    lost_by: int = 0
    """1: the death of the job's own process is charged to it."""
    suspicion: int | None = None
    """With how many lost workers it was aboard. Absent: a run that ended by itself clears it."""
    args_repr: str = ""
    """Redacted, for a dead letter."""
