"""What a finished job weighs on disk, indexes included. Imports models: Django must be set up."""

import os
import uuid
from dataclasses import replace

from django.db import connection
from django.utils import timezone

from bench.errors import BenchError
from bench.ours import QUEUE, noop
from bench.sides import TEXT
from celeriac import ids
from celeriac.asked import NewJob
from celeriac.ledger import transitions
from celeriac.models import Job, Lease, Worker
from celeriac.outcomes import Outcome
from celeriac.settle.settle import redactor
from celeriac.states import Status

_BATCH = 1000
_TERM = 1_000_000  # beyond any that a scheduler of this ground has had


def bytes_a_job(jobs: int) -> float:
    """Accept a backlog of so many jobs, end them all, vacuum as autovacuum would, and weigh both tables. Needs empty ones."""
    asked = _as_the_door_asks()
    for begun in range(0, jobs, _BATCH):
        transitions.accept([replace(asked, task_id=_new_id()) for _ in range(min(_BATCH, jobs - begun))])
    _run_all()
    accepted, ended = Job.objects.count(), Job.objects.filter(outcome="SUCCEEDED").count()
    if ended != accepted:
        raise BenchError(f"{ended} of {accepted} jobs have ended: what is left unfinished can't be weighed.")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) celeriac_job, celeriac_live")
        cursor.execute("SELECT pg_total_relation_size('celeriac_job') + pg_total_relation_size('celeriac_live')")
        (size,) = cursor.fetchone()
    return float(size) / ended


def _as_the_door_asks() -> NewJob:
    """A job as `.delay()` writes it; itself among those that are weighed."""
    noop.delay(0.0, TEXT)
    job = Job.objects.get()
    return NewJob(task_id=job.task_id, task_type=job.task_type, queue=job.queue, payload=job.payload)


def _new_id() -> uuid.UUID:
    return uuid.UUID(ids.new())


def _run_all() -> None:
    """Stage, claim and settle until nothing is left, by the very statements that scheduler and worker use."""
    now = timezone.now()
    Lease.objects.update_or_create(name="scheduler", defaults={"term": _TERM, "renewed_at": now})
    worker = Worker.objects.create(
        hostname="bench", pid=os.getpid(), pool="none", lock_key=0, started_at=now, beat_at=now
    )
    while staged := transitions.stage(_TERM, {QUEUE: _BATCH}, ()):
        claimed = transitions.claim([s.ref for s in staged], [None] * len(staged), worker.id, os.getpid())
        outcomes = [Outcome(c.ref, c.public_id, c.task_type, c.queue, Status.SUCCEEDED, "succeeded") for c in claimed]
        transitions.settle(outcomes, worker.id, redactor())
