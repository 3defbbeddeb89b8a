"""What Celery does along with the end of a task, for jobs that end without their run: chord counts, failed chains, errbacks.

A run that ends settles these itself, in its own transaction (``endings.along_of``). Who speaks for a job whose process is dead, whose outcome
waited on disk, that expired, was revoked or ignored, knows no Celery request and may have no Celery app at all. It writes a small job in the
same transaction, ``celeriac.propagate``, and a worker of the job's queue does it, once.
"""

from __future__ import annotations

from typing import Any

from celery import states as celery_states
from celery._state import connect_on_app_finalize
from celery.exceptions import TaskRevokedError
from django.db import transaction

from celeriac.asked import ADOPTED, PROPAGATE
from celeriac.policy import Backoff, Policy


@connect_on_app_finalize
def add(app: Any) -> None:
    """The task, in each app that has a ledger."""
    from celeriac.bridge.app import Celery

    if not isinstance(app, Celery):
        return

    @app.task(
        name=PROPAGATE,
        lazy=False,
        shared=False,
        ignore_result=True,
        ledger=True,
        policy=Policy(max_retries=10, backoff=Backoff(1, cap=600, jitter=1)),
    )
    def propagate(seq: int, fence: int, how: str) -> None:
        """Do along with the end of job *seq* what Celery does; *how* is the move that ended it."""
        once(app, seq, fence, how)


def once(app: Any, seq: int, fence: int, how: str) -> None:
    """In one transaction with the line that says so: a second run finds that line, and a job with a new life is left to that."""
    from celeriac import conf
    from celeriac.bridge import codec
    from celeriac.bridge.contexts import context_of
    from celeriac.ledger import transitions
    from celeriac.ledger.rows import Why
    from celeriac.models import History, Job
    from celeriac.outcomes import Ref

    using = conf.alias()
    with transaction.atomic(using=using):
        job = Job.objects.using(using).select_for_update().filter(seq=seq, fence=fence, outcome__isnull=False).first()
        told = History.objects.using(using).filter(job_id=seq, fence=fence, event="propagated", reason=how)
        if job is None or told.exists():
            return
        transitions.note("propagated", [Ref(seq, fence)], Why("worker", how))
        body = codec.decode_payload(job.payload)
        _along(app, job, context_of(job, body), how)


def _along(app: Any, job: Any, request: Any, how: str) -> None:
    from celeriac.bridge import codec
    from celeriac.bridge.backend import configured_backend
    from celeriac.bridge.door import telling

    task = app.tasks.get(job.task_type)
    backend = task.backend if task is not None else app.backend
    exc = TaskRevokedError("ignored") if how == "ignored" else backend._exception_of(job, job.status)
    held = job.outcome == "DEAD_LETTER" and not _propagates(task)
    if request.get(ADOPTED):
        with telling():
            _tell(configured_backend(app), request, job.outcome, held, codec.decode_result(job.result), exc, how)
    elif job.outcome == "SUCCEEDED":
        if request.chord:
            backend.on_chord_part_return(request, celery_states.SUCCESS, codec.decode_result(job.result))
    elif how in _REVOKED:
        # Celery tells the chord alone, and whoever waits for the end of the chain waits for ever.
        revoked = TaskRevokedError(job.error or how)
        backend.propagate_failure(request, revoked, None, call_errbacks=False, state=celery_states.REVOKED)
    elif held:
        # Held until a person acts; but whoever asked to be told of the failure is told, once.
        if request.errbacks:
            backend._call_task_errbacks(request, exc, None)
    else:
        # Of what a person ignores the errbacks have been told when it became a dead letter; of what was replaced, by the canvas.
        backend.propagate_failure(request, exc, None, call_errbacks=how not in ("ignored", "upstream_failed"))


def _tell(backend: Any, request: Any, outcome: str, held: bool, value: Any, exc: Any, how: str) -> None:
    """Celery's own way of ending a task, in the backend of its sender."""
    if outcome == "SUCCEEDED":
        backend.mark_as_done(request.id, value, request)
    elif how in _REVOKED:
        backend.mark_as_revoked(request.id, str(exc), request)
    elif held:
        backend.store_result(request.id, exc, celery_states.FAILURE, request=request)
        if request.errbacks:
            backend._call_task_errbacks(request, exc, None)
    else:
        backend.mark_as_failure(request.id, exc, None, request, call_errbacks=how not in ("ignored", "upstream_failed"))


_REVOKED = frozenset(
    {
        "expired",
        "expired_retry",
        "expired_dispatched",
        "revoked",
        "revoked_retry",
        "revoked_parked",
        "revoked_dispatched",
        "revoked_running",
    }
)


def _propagates(task: Any) -> bool:
    policy = getattr(task, "policy", None)
    return policy is not None and policy.on_dead_letter == "propagate"
