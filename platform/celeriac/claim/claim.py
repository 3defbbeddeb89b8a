"""Makes jobs this child's own. Before Celery's tracer is entered: a refused claim leaves no trace in signals or results."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Sequence

from django.db import DatabaseError, InterfaceError

from celeriac import events
from celeriac.ledger import queries, transitions
from celeriac.ledger.rows import Claimed
from celeriac.ledger.session import connection
from celeriac.outcomes import Ref

logger = logging.getLogger("celeriac")


def claim(refs: Sequence[Ref], limits: Sequence[float | None], worker: uuid.UUID) -> list[Claimed]:
    """DISPATCHED → RUNNING for each of *refs* that is still so; the others are left alone.

    Arguments:
        refs: jobs with the fences that their messages carry.
        limits: hard limits of their task types in seconds, ``None`` for none.
        worker: this incarnation.

    With the database away nothing is claimed: the jobs stay DISPATCHED and are sent again. A connection that died since its last
    use is replaced and the claim tried once more: an idle night must not cost a job its message.
    """
    for last_try in (False, True):
        try:
            claimed = transitions.claim(refs, limits, worker, os.getpid())
        except (DatabaseError, InterfaceError) as exc:
            connection().close_if_unusable_or_obsolete()
            if connection().connection is not None:
                connection().close()
            if last_try:
                logger.warning("The database is away, %d job(s) can't be claimed: %s", len(refs), exc)
                return []
        else:
            break
    mine = {(c.ref.job, c.ref.fence - 1) for c in claimed}
    refused = [ref for ref in refs if (ref.job, ref.fence) not in mine]
    names = queries.named([ref.job for ref in refused]) if refused else {}
    for ref in refused:
        reason = "claimed, taken back or expired"
        events.emit("job.claim_refused", **names.get(ref.job, {}), fence=ref.fence, worker=str(worker), reason=reason)
    for c in claimed:
        events.emit(
            "job.claimed",
            job_id=c.public_id,
            trace_id=c.trace,
            task_type=c.task_type,
            queue=c.queue,
            attempt=c.attempt,
            worker=str(worker),
        )
    return claimed
