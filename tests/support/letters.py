"""Jobs and dead letters as the platform makes them: by the ledger's own moves, without a broker or a worker process."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from celeriac import codes
from celeriac.asked import NewJob
from celeriac.ledger import transitions
from celeriac.ledger.rows import Claimed, Staged
from celeriac.models import DeadLetter, Job, Lease, Worker
from celeriac.observe.story import redactor
from celeriac.outcomes import Failure, Outcome
from celeriac.states import Status

TYPE = "shop.sms.notify"
QUEUE = "sms"
TERM = 1


def worker(
    hostname: str = "sms1@host", queues: Sequence[str] = (QUEUE,), tasks: Sequence[str] = (TYPE,), slots: int = 2
) -> Worker:
    """Write a living incarnation."""
    now = timezone.now()
    return Worker.objects.create(
        hostname=hostname,
        pid=4711,
        pool="prefork",
        queues=list(queues),
        tasks=list(tasks),
        slots=slots,
        versions={"celeriac": "0"},
        lock_key=uuid.uuid4().int % 2**62,
        started_at=now,
        beat_at=now,
    )


def lease() -> Lease:
    """Write the lease of a scheduler that leads in the term :data:`TERM`."""
    row, _ = Lease.objects.update_or_create(
        name="scheduler", defaults={"term": TERM, "holder": "scheduler1", "renewed_at": timezone.now()}
    )
    return row


def accept(
    *,
    task_type: str = TYPE,
    queue: str = QUEUE,
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    payload: str | None = None,
    **asked: Any,
) -> Job:
    """Accept one job. `payload` replaces what is made of args and kwargs; `asked` are further fields of NewJob."""
    stored = {name: value for name, value in (("args", list(args)), ("kwargs", kwargs or {})) if value}
    task_id = asked.pop("task_id", None) or uuid.uuid4()
    transitions.accept(
        [NewJob(task_id=task_id, task_type=task_type, queue=queue, payload=payload or json.dumps(stored), **asked)]
    )
    return Job.objects.get(task_id=task_id)


def dispatch(job: Job) -> Staged:
    """Hand one due job to a broker that isn't there; what else is due on its queue goes along."""
    lease()
    staged = transitions.stage(TERM, {job.queue: 1000}, ())
    return next(one for one in staged if one.ref.job == job.pk)


def claim(job: Job, on: Worker) -> Claimed:
    """Dispatch one due job, and have the worker begin it."""
    (claimed,) = transitions.claim([dispatch(job).ref], [None], on.pk, 4712)
    return claimed


def settle(
    claimed: Claimed, on: Worker, failure: Failure | None = None, status: Status = Status.SUCCEEDED, arrow: str = ""
) -> None:
    """End one run; by default it succeeded. A failed one is due again at once where it is to be tried again."""
    arrows = {Status.SUCCEEDED: "succeeded", Status.RETRY: "retried", Status.DEAD_LETTER: "dead_lettered"}
    outcome = Outcome(
        ref=claimed.ref,
        task_id=claimed.public_id,
        task_type=claimed.task_type,
        queue=claimed.queue,
        status=status,
        arrow=arrow or arrows[status],
        failure=failure,
        retry_count=claimed.retry_count + 1 if status is Status.RETRY else None,
        args_repr=redactor().text(claimed.payload),
    )
    assert transitions.settle([outcome], on.pk, redactor()), "the outcome was refused"


def failure(code: str = codes.UNCLASSIFIED, message: str = "it broke", kind: str = "shop.errors.Broken") -> Failure:
    """What went wrong in one attempt."""
    trace = f'Traceback (most recent call last):\n  File "shop/sms.py", line 7, in notify\n{kind}: {message}'
    return Failure(code=code, kind=kind, message=message, traceback=trace, fingerprint="f" * 32)


def dead_letter(
    job: Job | None = None, *, failures: Sequence[Failure] = (), on: Worker | None = None, **asked: Any
) -> DeadLetter:
    """Have a job fail once for each failure (default: one), the last time for good. `asked` goes to :func:`accept`."""
    job = job or accept(**asked)
    on = on or Worker.objects.filter(hostname="sms1@host").first() or worker()
    *earlier, last = failures or [failure()]
    for one in earlier:
        settle(claim(job, on), on, one, Status.RETRY)
    settle(claim(job, on), on, last, Status.DEAD_LETTER)
    return DeadLetter.objects.get(job=job, state=DeadLetter.State.OPEN)
