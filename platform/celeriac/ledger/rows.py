"""What the ledger's writer hands out, as values."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from celeriac.outcomes import Ref
from celeriac.states import Status


@dataclass(frozen=True, slots=True)
class Staged:
    """A job that was just marked DISPATCHED: what its message is made of."""

    ref: Ref
    queue: str
    priority: int
    attempt: int
    retry_count: int
    task_id: uuid.UUID
    alias: str | None
    task_type: str
    root_id: uuid.UUID | None
    parent_id: uuid.UUID | None
    group_id: uuid.UUID | None
    payload: str | None
    """``None`` where it is too long to be worth reading for a repr."""
    payload_length: int
    worker: uuid.UUID | None = None
    """Whose own queue it goes through; ``None``: the queue that all workers of its type consume."""

    @property
    def public_id(self) -> str:
        """The id as callers and Celery know it."""
        return self.alias or str(self.task_id)

    @property
    def trace(self) -> str:
        """The one id under which the whole story is told."""
        return str(self.root_id or self.task_id)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job that is now ours under ``ref.fence``."""

    ref: Ref
    attempt: int
    retry_count: int
    lost_count: int
    time_limit: float | None
    expires_at: datetime | None
    task_id: uuid.UUID
    alias: str | None
    task_type: str
    queue: str
    priority: int
    root_id: uuid.UUID | None
    parent_id: uuid.UUID | None
    group_id: uuid.UUID | None
    trace_id: uuid.UUID | None
    biz_id: str | None
    payload: str

    @property
    def public_id(self) -> str:
        """The id as callers and Celery know it."""
        return self.alias or str(self.task_id)

    @property
    def trace(self) -> str:
        """The one id under which the whole story is told."""
        return str(self.trace_id or self.root_id or self.task_id)


@dataclass(frozen=True, slots=True)
class Moved:
    """One move that happened."""

    ref: Ref
    source: Status
    attempt: int
    retry_count: int
    lost_count: int = 0


@dataclass(frozen=True, slots=True)
class Why:
    """Who makes a move and why, for the history."""

    actor: str
    reason: str = ""
    worker: uuid.UUID | None = None
