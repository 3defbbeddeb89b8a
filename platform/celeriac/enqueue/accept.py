"""Accepts jobs: validates, writes ``Job`` and ``Live`` in the caller's transaction, rings the scheduler after the commit.

Accepted means committed. The calling thread waits for the database and for nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from django.db import connections, transaction

from celeriac import conf, events
from celeriac.asked import NewJob
from celeriac.errors import EnqueueError, JobExists
from celeriac.ledger import transitions
from celeriac.models import Job

logger = logging.getLogger("celeriac")


def accept(jobs: Sequence[NewJob], ring: Callable[[], None] | None) -> None:
    """Write *jobs* in the transaction that is open, or in one of their own.

    Arguments:
        jobs: what to accept.
        ring: called after the commit to wake the scheduler; it must not block. Absent: the scheduler finds out by polling.

    Raises:
        JobExists: a task_id was used before by a job that has ended. Nothing is written.
        EnqueueError: the only open transaction is on another database and CELERIAC['ON_OTHER_DATABASE'] is "refuse".
        django.db.DatabaseError: the database could not be written; nothing was accepted.
    """
    alias = conf.alias()
    _look_at_other_databases(alias)
    if len(jobs) == 1:
        new = transitions.accept(jobs)
        if not new:
            _first_come(jobs[0])
    else:
        # All or none, also outside a transaction: a caller that gets an error must be able to try the whole again.
        with transaction.atomic(using=alias):
            new = transitions.accept(jobs)
            for job in jobs:
                if job.task_id not in new:
                    _first_come(job)
    if ring is not None and new:
        transaction.on_commit(ring, using=alias, robust=True)
    for job in jobs if events.wanted("job.accepted") else ():
        events.emit(
            "job.accepted",
            job_id=job.alias or job.task_id,
            trace_id=job.trace,
            task_type=job.task_type,
            queue=job.queue,
        )


def _first_come(job: NewJob) -> None:
    """A task_id that is taken: an unfinished job is the answer to both callers, an ended one is an error."""
    first = Job.objects.using(conf.alias()).filter(task_id=job.task_id).values_list("outcome", flat=True).first()
    if first is not None:
        raise JobExists(job.alias or str(job.task_id), first)


def _look_at_other_databases(alias: str) -> None:
    """A job must not outlive the rows it is about: an atomic block open on another database only is suspicious."""
    if len(connections.settings) == 1 or connections[alias].in_atomic_block:
        return
    for other in connections.all(initialized_only=True):
        if other.alias != alias and other.in_atomic_block:
            message = (
                f"A job is enqueued inside an atomic block on database {other.alias!r}, but the ledger is on {alias!r}: the job "
                f"is committed at once, whatever becomes of that block. Open transaction.atomic(using={alias!r}) around both, or "
                "call .delay_on_commit()."
            )
            if conf.get("ON_OTHER_DATABASE") == "refuse":
                raise EnqueueError(message)
            logger.warning(message)
            return
