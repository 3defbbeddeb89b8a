"""What a caller asks for, as a value, before it is a row."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from celeriac.states import ParkedReason

#: The platform's own task: what Celery does along with the end of a job whose run couldn't do it.
PROPAGATE: Final = "celeriac.propagate"
#: Header of a job that plain Celery has sent, or that follows from one: its end is told to the configured result backend, too.
ADOPTED: Final = "adopted"


@dataclass(frozen=True, slots=True)
class NewJob:
    """One job to accept.

    ``run_at`` wins over ``delay`` (seconds from now on the database's clock); likewise ``expires_at`` over ``expires_in``.
    ``payload`` is JSON in ASCII. ``time_limit``: hard limit in seconds that the call asked for, absent: the task's.
    """

    task_id: uuid.UUID
    task_type: str
    queue: str
    payload: str
    alias: str | None = None
    priority: int = 0
    biz_id: str | None = None
    trace_id: uuid.UUID | None = None
    root_id: uuid.UUID | None = None
    parent_id: uuid.UUID | None = None
    group_id: uuid.UUID | None = None
    delay: float = 0.0
    run_at: datetime | None = None
    expires_in: float | None = None
    expires_at: datetime | None = None
    time_limit: float | None = None
    retry_count: int = 0
    parked_reason: ParkedReason | None = None
    fresh: bool = False
    """The id was made for this job a moment ago: nobody else can have it, and the insert needn't look."""

    @property
    def trace(self) -> uuid.UUID:
        """The one id under which the whole story is told."""
        return self.trace_id or self.root_id or self.task_id
