"""Writes how runs ended: to the ledger, or to the spool while the database is away. The child is free either way."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, OperationalError

from celeriac import conf, events, redaction
from celeriac.ledger import queries, transitions
from celeriac.ledger.rows import Why
from celeriac.ledger.session import connection
from celeriac.models import Job
from celeriac.outcomes import Outcome, Ref
from celeriac.settle.decide import Decision
from celeriac.settle.failure import describe
from celeriac.settle.spool import Spool
from celeriac.settle.wire import to_entry
from celeriac.states import Status

logger = logging.getLogger("celeriac")

_EVENT = {
    Status.SUCCEEDED: "job.succeeded",
    Status.RETRY: "job.retried",
    Status.FAILED: "job.failed",
    Status.CANCELLED: "job.cancelled",
    Status.DEAD_LETTER: "job.dead_lettered",
    Status.PARKED: "job.parked",
    Status.PENDING: "job.handed_back",
}


def redactor() -> redaction.Redactor:
    """The project's redactor."""
    return redaction.redactor(tuple(conf.get("REDACT_KEYS")), tuple(conf.get("REDACT_PATTERNS")))


def settle(
    outcomes: Sequence[Outcome],
    worker: uuid.UUID,
    spool: Spool,
    along: Callable[[Outcome], None] | None = None,
    *,
    elsewhere: bool = False,
) -> list[Ref]:
    """Settle *outcomes* of *worker*. Returns those that the ledger took (none of them when they went to the spool).

    Arguments:
        outcomes: how runs ended, under their fences.
        worker: the incarnation that claimed them.
        spool: where they wait when the database is away.
        along: what is written in the same transaction; see ``transitions.settle``.
        elsewhere: as for ``transitions.settle``.
    """
    for last_try in (False, True):
        try:
            settled = transitions.settle(outcomes, worker, redactor(), along, elsewhere=elsewhere)
        except (DataError, IntegrityError):
            # Not the database's absence but something in the outcome that it can't hold: waiting wouldn't help. A bug of ours.
            raise
        except (OperationalError, InterfaceError, DatabaseError) as exc:
            # One retry on a new connection: most "away"s are a session that was closed since its last use.
            connection().close()
            if last_try:
                _spool(outcomes, worker, spool, exc)
                return []
        else:
            break
    return told(outcomes, settled, worker)


def _spool(outcomes: Sequence[Outcome], worker: uuid.UUID, spool: Spool, exc: Exception) -> None:
    for outcome in outcomes:
        spool.append({"worker": str(worker), "outcome": to_entry(outcome)})
        events.emit(
            "job.spooled",
            job_id=outcome.task_id,
            trace_id=outcome.trace_id,
            task_type=outcome.task_type,
            target=outcome.status.value,
            reason=str(exc),
        )


def spoken_for(
    job: Job,
    ref: Ref,
    decision: Decision,
    error: Exception,
    *,
    args_repr: str,
    charged: int = 0,
    suspicion: int | None = None,
) -> Outcome:
    """The outcome of a run that can't speak for itself: its process is dead, or doesn't end. *charged*: 1 when the death is held against the job."""
    return Outcome(
        ref=ref,
        task_id=job.public_id,
        trace_id=str(job.trace),
        task_type=job.task_type,
        queue=job.queue,
        status=decision.status,
        arrow=decision.arrow,
        failure=describe(error, ""),
        delay=decision.delay,
        retry_count=decision.retry_count,
        parked_reason=decision.parked.value if decision.parked else None,
        reason=decision.reason or str(error),
        lost_by=charged,
        suspicion=suspicion,
        args_repr=args_repr,
    )


def told(outcomes: Sequence[Outcome], settled: Sequence[Ref], worker: uuid.UUID) -> list[Ref]:
    """Say what became of each outcome, and leave a line where one was refused. Returns what the ledger has."""
    taken = set(settled)
    refused = [o for o in outcomes if o.ref not in taken]
    if refused:
        try:
            # The answer of a settle can be lost with its connection, and a spool be replayed twice: what has landed wasn't refused.
            taken |= queries.landed([o.ref for o in refused], worker)
            reason = "the fence has moved on: the job had been taken from this worker"
            late = [o.ref for o in refused if o.ref not in taken]
            transitions.note("outcome_refused", late, Why("worker", reason, worker))
            transitions.count_refused(worker, len(late))
        except DatabaseError as exc:  # the refusal itself is decided; only its line in the history is missing
            logger.warning("A refused outcome could not be noted in the history: %s", exc)
    for o in outcomes:
        events.emit(
            ("job.lost" if o.arrow == "lost" else _EVENT[o.status]) if o.ref in taken else "job.outcome_refused",
            job_id=o.task_id,
            trace_id=o.trace_id,
            task_type=o.task_type,
            queue=o.queue,
            source=Status.RUNNING.value,
            target=o.status.value,
            retry_count=o.retry_count,
            worker=str(worker),
            cost_ms=round(o.seconds * 1000, 1) if o.seconds is not None else None,
            reason=redactor().text(
                o.reason or (f"{o.failure.code}: {o.failure.kind}: {o.failure.message}" if o.failure else "")
            )
            or None,
        )
    return [o.ref for o in outcomes if o.ref in taken]
