"""One run of one job: remembers what Celery's tracer says and what the task wished, writes nothing.

Why remember: ``retry()`` inside ``atomic()`` would roll itself back; a database error raised from ``mark_as_done`` makes the tracer run
the errbacks of a job that succeeded; and a link that is sent before the success is settled runs twice when the settle is refused.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextvars import Token
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from celeriac.asked import NewJob
from celeriac.run import current as _module

if TYPE_CHECKING:
    from celeriac.ledger.rows import Claimed


_IDLE: Final = TransactionStatus.IDLE


@dataclass(frozen=True, slots=True)
class Wish:
    """A retry that the task, or its policy, asked for. ``payload`` and ``run_at`` where they differ from what was."""

    delay: float
    retry_count: int
    payload: str | None = None
    run_at: datetime | None = None
    code: str | None = None
    replaced_by: tuple[str, str] | None = None
    """Task type and queue, where ``replace()`` put another task into this job's place."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What the tracer reported last."""

    state: str
    result: str | None = None
    error: BaseException | None = None
    traceback: str = ""
    request: Any = None
    call_errbacks: bool = True
    value: Any = None


@dataclass(slots=True)
class Run:
    """Context manager around the tracer. After it: what ended the run, the wish, the held sends, and no open transaction."""

    claimed: Claimed
    ended: Ended | None = None
    wish: Wish | None = None
    held: list[NewJob] = field(default_factory=list)
    raised: BaseException | None = None
    """What the body raised, as it was raised."""
    replaced: bool = False
    """A canvas takes its place: it is in ``held``, and one of its tasks will come with this job's id."""
    stopped: bool = False
    """The process was told to die by its main process before the body was through."""
    seconds: float = 0.0
    _open_before: frozenset[str] = frozenset()
    _token: Token[Any] | None = None
    _begun: float = 0.0

    def __enter__(self) -> Run:
        # A worker's runs begin outside of transactions. A test's begin in the one that is rolled back at its end: that stays.
        self._open_before = frozenset(c.alias for c in connections.all(initialized_only=True) if c.in_atomic_block)
        self._token = _module._current.set(self)
        self._begun = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.seconds = time.monotonic() - self._begun
        if self._token is not None:
            _module._current.reset(self._token)
        roll_back_what_was_left_open(self._open_before)


def roll_back_what_was_left_open(but: Collection[str] = ()) -> None:
    """No transaction of a task body reaches the settle, or the next job.

    A task can leave ``set_autocommit(False)``, an ``atomic`` that was entered by hand, a ``BEGIN`` sent as plain SQL (of which Django knows
    nothing), or a broken connection. Such a connection is dropped: what was not committed is rolled back by the server, and Django's
    idea of it starts anew.
    """
    for connection in connections.all(initialized_only=True):
        if connection.alias in but:
            continue
        if _left_open(connection):
            connection.in_atomic_block = False
            connection.needs_rollback = False
            connection.closed_in_transaction = False
            connection.savepoint_ids = []
            connection.atomic_blocks = []
            connection.run_on_commit = []
            connection.close()
        elif connection.connection is not None and connection.errors_occurred:
            connection.close_if_unusable_or_obsolete()


def _left_open(connection: BaseDatabaseWrapper) -> bool:
    if connection.in_atomic_block:
        return True
    direct = connection.connection
    if direct is None:
        return False
    if not connection.get_autocommit():
        return True
    if connection.vendor != "postgresql":
        return False
    # What the session itself says; psycopg 3 knows without asking the server.
    return not direct.autocommit or direct.pgconn.transaction_status != _IDLE
