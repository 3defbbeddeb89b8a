"""The states of a job and the one table of moves between them.

``ARROWS`` is the truth: the ledger refuses a move that isn't here, the model's check constraints and the diagram in
``docs/reference/states.md`` are made from it, and the property test walks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Where a job is. The first five live in ``Live.status``, the rest in ``Job.outcome``."""

    PENDING = "PENDING"
    RETRY = "RETRY"
    PARKED = "PARKED"
    DISPATCHED = "DISPATCHED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DEAD_LETTER = "DEAD_LETTER"


LIVE: Final = (Status.PENDING, Status.RETRY, Status.PARKED, Status.DISPATCHED, Status.RUNNING)
ENDED: Final = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.DEAD_LETTER)
WAITING: Final = (Status.PENDING, Status.RETRY)


class ParkedReason(StrEnum):
    """Why a job is held. ``SWITCH`` and ``ORDER`` may last as long as the operator or the predecessor wants."""

    SWITCH = "switch"
    BREAKER = "breaker"
    DEGRADED = "degraded"
    ORDER = "order"
    RAMP = "ramp"
    REPLACED = "replaced"
    NO_HANDLER = "no handler"
    REVIEW = "review"


class Owner(StrEnum):
    """Who has to make the next move."""

    ENQUEUE = "enqueue"
    SCHEDULER = "scheduler"
    WORKER = "worker"
    TRIAGE = "triage"


OWNERS: Final[dict[Status, Owner | None]] = {
    Status.PENDING: Owner.SCHEDULER,
    Status.RETRY: Owner.SCHEDULER,
    Status.PARKED: Owner.SCHEDULER,
    Status.DISPATCHED: Owner.SCHEDULER,
    Status.RUNNING: Owner.WORKER,
    Status.SUCCEEDED: None,
    Status.FAILED: None,
    Status.CANCELLED: None,
    Status.DEAD_LETTER: Owner.TRIAGE,
}


@dataclass(frozen=True, slots=True)
class Arrow:
    """One named move.

    ``source`` is ``None`` for a birth. ``guard`` says in words what the ``WHERE`` of the move asks for beside job, status
    and fence. ``raises_fence``: the move makes every message and every claim of the time before it stale.
    ``exceptional`` moves write a ``History`` row; the happy path is told by timestamps.
    """

    name: str
    source: Status | None
    target: Status
    guard: str
    raises_fence: bool = False
    exceptional: bool = True


S = Status
ARROWS: Final[tuple[Arrow, ...]] = (
    Arrow("accepted", None, S.PENDING, "the caller's transaction commits", exceptional=False),
    Arrow("accepted_parked", None, S.PARKED, "the caller's transaction commits", exceptional=False),
    Arrow("dispatched", S.PENDING, S.DISPATCHED, "due, not expired, switch on, slot free, term is current", exceptional=False),
    Arrow("dispatched_again", S.RETRY, S.DISPATCHED, "due, not expired, switch on, slot free, term is current", exceptional=False),
    Arrow("parked", S.PENDING, S.PARKED, "due and its type is switched off", raises_fence=True),
    Arrow("parked_retry", S.RETRY, S.PARKED, "due and its type is switched off", raises_fence=True),
    Arrow("parked_dispatched", S.DISPATCHED, S.PARKED, "its type is switched off, or no worker knows it", raises_fence=True),
    Arrow("unparked", S.PARKED, S.PENDING, "the reason has gone"),
    Arrow("expired", S.PENDING, S.CANCELLED, "expires_at has passed"),
    Arrow("expired_retry", S.RETRY, S.CANCELLED, "expires_at has passed, policy cancels"),
    Arrow("expired_dispatched", S.DISPATCHED, S.CANCELLED, "expires_at has passed", raises_fence=True),
    Arrow("expired_open", S.RETRY, S.DEAD_LETTER, "expires_at has passed with retries open, policy wants a hand"),
    Arrow("revoked", S.PENDING, S.CANCELLED, "asked by a caller or an operator"),
    Arrow("revoked_retry", S.RETRY, S.CANCELLED, "asked by a caller or an operator"),
    Arrow("revoked_parked", S.PARKED, S.CANCELLED, "asked by a caller or an operator"),
    Arrow("revoked_dispatched", S.DISPATCHED, S.CANCELLED, "asked by a caller or an operator", raises_fence=True),
    Arrow("revoked_running", S.RUNNING, S.CANCELLED, "asked by a caller or an operator", raises_fence=True),
    Arrow("claimed", S.DISPATCHED, S.RUNNING, "not expired, incarnation alive", raises_fence=True, exceptional=False),
    Arrow("withdrawn", S.DISPATCHED, S.PENDING, "not published, or its holder is gone", raises_fence=True),
    Arrow("succeeded", S.RUNNING, S.SUCCEEDED, "fence and incarnation are the claim's", exceptional=False),
    Arrow("retried", S.RUNNING, S.RETRY, "fence and incarnation are the claim's"),
    Arrow("failed", S.RUNNING, S.FAILED, "fence and incarnation are the claim's"),
    Arrow("cancelled", S.RUNNING, S.CANCELLED, "fence and incarnation are the claim's"),
    Arrow("dead_lettered", S.RUNNING, S.DEAD_LETTER, "fence and incarnation are the claim's"),
    Arrow("held", S.RUNNING, S.PARKED, "fence and incarnation are the claim's"),
    Arrow("replaced", S.RUNNING, S.PARKED, "fence and incarnation are the claim's, and the canvas in its place is written"),
    Arrow("descended", S.PARKED, S.PENDING, "held as replaced, and the descendant with its id is here", raises_fence=True),
    Arrow("upstream_failed", S.PARKED, S.FAILED, "held as replaced, and the canvas in its place failed"),
    Arrow("handed_back", S.RUNNING, S.PENDING, "the run was stopped by us, nobody is charged", raises_fence=True),
    Arrow("rescued", S.RUNNING, S.PENDING, "the incarnation is gone, nobody is charged", raises_fence=True),
    Arrow("lost", S.RUNNING, S.RETRY, "incarnation and child are the claim's and gone", raises_fence=True),
    Arrow("released", S.PARKED, S.PENDING, "held for review, a person lets it go", raises_fence=True),
    Arrow("late_succeeded", S.PARKED, S.SUCCEEDED, "held for review, and the fence is still the claim's"),
    Arrow("late_retried", S.PARKED, S.RETRY, "held for review, and the fence is still the claim's"),
    Arrow("late_failed", S.PARKED, S.FAILED, "held for review, and the fence is still the claim's"),
    Arrow("late_cancelled", S.PARKED, S.CANCELLED, "held for review, and the fence is still the claim's"),
    Arrow("late_dead_lettered", S.PARKED, S.DEAD_LETTER, "held for review, and the fence is still the claim's"),
    Arrow("parked_long", S.PARKED, S.DEAD_LETTER, "longer than the longest park, never for switches and order"),
    Arrow("redelivered", S.DEAD_LETTER, S.PENDING, "the letter hasn't moved since it was read", raises_fence=True),
    Arrow("resolved", S.DEAD_LETTER, S.SUCCEEDED, "the letter hasn't moved since it was read"),
    Arrow("ignored", S.DEAD_LETTER, S.CANCELLED, "the letter hasn't moved since it was read"),
)  # fmt: skip
del S

BY_NAME: Final[dict[str, Arrow]] = {arrow.name: arrow for arrow in ARROWS}


def arrow(name: str) -> Arrow:
    """The move called *name*. Raises ``KeyError`` for a move that doesn't exist: such a move is a bug of ours."""
    return BY_NAME[name]


#: What Celery's own states say of ours (``AsyncResult.state``, Flower).
CELERY_STATE: Final[dict[Status, str]] = {
    Status.PENDING: "PENDING",
    Status.PARKED: "PENDING",
    Status.DISPATCHED: "RECEIVED",
    Status.RUNNING: "STARTED",
    Status.RETRY: "RETRY",
    Status.SUCCEEDED: "SUCCESS",
    Status.FAILED: "FAILURE",
    Status.DEAD_LETTER: "FAILURE",
    Status.CANCELLED: "REVOKED",
}
