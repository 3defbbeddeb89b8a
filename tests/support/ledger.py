"""Jobs in any state, brought there by the ledger's own moves, and those moves by the names of their arrows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from celeriac.ledger import transitions
from celeriac.ledger.rows import Why
from celeriac.models import Job, Live, Worker
from celeriac.observe.story import redactor
from celeriac.outcomes import Outcome, Ref
from celeriac.states import ENDED, LIVE, Arrow, ParkedReason, Status, arrow
from tests.support import letters

WHY: Final = Why("amy", "the test wants it")
PID: Final = 4712
#: Moves that a run's outcome makes, under the guard of the claim's incarnation.
BY_SETTLE: Final = (
    "succeeded",
    "retried",
    "failed",
    "cancelled",
    "dead_lettered",
    "held",
    "handed_back",
    "lost",
)


def incarnation() -> Worker:
    """The worker that claims, the same one throughout a test."""
    return Worker.objects.filter(hostname="sms1@host").first() or letters.worker()


def now_of(job: int) -> tuple[Status, int]:
    """Where a job is and under which fence, read from both tables."""
    row = Job.objects.get(pk=job)
    live = Live.objects.filter(job_id=job).first()
    assert (row.outcome is None) == (live is not None), "neither of Live row and outcome, or both"
    return (Status(live.status), live.fence) if live is not None else (Status(row.outcome), row.fence)


def at(status: Status) -> Ref:
    """A new job in *status*."""
    job = _bring(status)
    found, fence = now_of(job.pk)
    assert found is status
    return Ref(job.pk, fence)


def _bring(status: Status) -> Job:
    job = letters.accept(parked_reason=ParkedReason.SWITCH if status is Status.PARKED else None)
    if status is Status.DISPATCHED:
        letters.dispatch(job)
    elif status not in (Status.PENDING, Status.PARKED):
        on = incarnation()
        claimed = letters.claim(job, on)
        if status is Status.RETRY:
            letters.settle(claimed, on, letters.failure(), Status.RETRY)
        elif status is Status.DEAD_LETTER:
            letters.settle(claimed, on, letters.failure(), Status.DEAD_LETTER)
        elif status in ENDED:
            letters.settle(
                claimed, on, arrow={"FAILED": "failed", "CANCELLED": "cancelled"}.get(status, ""), status=status
            )
    return job


def outcome(name: str, ref: Ref, **fields: Any) -> Outcome:
    """How a run under *ref* ended: by the arrow called *name*."""
    target = arrow(name).target
    if target is Status.PARKED:
        fields.setdefault("parked_reason", ParkedReason.REVIEW.value)
    if target in (Status.FAILED, Status.DEAD_LETTER):
        fields.setdefault("failure", letters.failure())
    return Outcome(
        ref=ref,
        task_id=str(Job.objects.values_list("task_id", flat=True).get(pk=ref.job)),
        task_type=letters.TYPE,
        queue=letters.QUEUE,
        status=target,
        arrow=name,
        **fields,
    )


def settle(outcomes: Sequence[Outcome], worker: uuid.UUID | None = None, **options: Any) -> list[Ref]:
    """Settle what the incarnation (or another *worker*) has run."""
    return transitions.settle(outcomes, worker or incarnation().pk, redactor(), **options)


def ways(step: Arrow) -> list[tuple[str, Callable[[Ref], bool]]]:
    """Every way in which the ledger makes a move: what it is called, and the call, which says whether the move happened."""
    name, found = step.name, []
    if name in ("dispatched", "dispatched_again"):
        found.append(("stage", _stage))
    elif name == "claimed":
        found.append(("claim", _claim))
    elif step.source is Status.DEAD_LETTER:
        found.append(("revive", _revive) if step.target in LIVE else ("close", lambda ref: _close(name, ref)))
    elif step.source is not None:
        if name in BY_SETTLE:
            found.append(("settle", lambda ref: bool(settle([outcome(name, ref)]))))
        if step.target in LIVE:
            found.append(("shift", lambda ref: _shift(step, ref)))
        elif name not in ("succeeded", "dead_lettered"):
            found.append(("finish", lambda ref: bool(transitions.finish(name, [ref], WHY))))
    return found


def _stage(ref: Ref) -> bool:
    letters.lease()
    return ref in [staged.ref for staged in transitions.stage(letters.TERM, {letters.QUEUE: 1000}, ())]


def _claim(ref: Ref) -> bool:
    return bool(transitions.claim([ref], [None], incarnation().pk, PID))


def _revive(ref: Ref) -> bool:
    return transitions.revive(ref.job, ref.fence, WHY) is not None


def _close(name: str, ref: Ref) -> bool:
    return transitions.close(name, ref.job, ref.fence, WHY)


def _shift(step: Arrow, ref: Ref) -> bool:
    parked = ParkedReason.SWITCH if step.target is Status.PARKED else None
    return bool(transitions.shift(step.name, [ref], WHY, parked=parked))
