"""Tests of projects: what was enqueued, and run it here and now with the ledger's own rules. No broker, no worker.

    from celeriac import testing

    def test_an_order_is_confirmed(db):
        place_order()
        testing.assert_enqueued(confirm, args=[order.pk])
        assert testing.drain() == {"SUCCEEDED": 1}

Everything is written on the connection of the test: it goes with pytest-django's ``db`` and ``transactional_db``, and with Django's
``TestCase``. Real are the claim, the fence, Celery's tracer with its signals, retries, links and chords, the settle and the dead letters; not there
are messages, processes and hard time limits. ``task_always_eager`` and ``apply()`` are Celery's own and write no job.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from celeriac import clock, conf
from celeriac.bridge import codec, inline
from celeriac.fleet import here as fleet_here
from celeriac.guard import switches
from celeriac.ledger import queries, transitions
from celeriac.ledger.rows import Staged, Why
from celeriac.models import Job, Lease, Live, Worker
from celeriac.models.lease import LEADER
from celeriac.outcomes import Ref

__all__ = ["assert_enqueued", "assert_not_enqueued", "drain", "enqueued", "perform", "travel"]


def enqueued(
    task: Any = None, *, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **fields: Any
) -> list[Job]:
    """Unfinished jobs, oldest first.

    Arguments:
        task: a task, or its name; absent: of every type.
        args, kwargs: only those with just these arguments, as JSON keeps them (a tuple is a list).
        fields: further fields of ``Job``, for example ``queue="sms"``, ``biz_id="order-42"``.
    """
    jobs = Job.objects.using(conf.alias()).unfinished().filter(**fields).order_by("seq")
    if task is not None:
        jobs = jobs.filter(task_type=_name(task))
    return [job for job in jobs if _has(job, args, kwargs)]


def assert_enqueued(task: Any, *, count: int | None = None, **wanted: Any) -> Job:
    """That such a job is enqueued: at least one, or exactly *count*. Takes what :func:`enqueued` takes; returns the first.

    Raises ``AssertionError``, which lists what is there.
    """
    found = enqueued(task, **wanted)
    if (count is None and not found) or (count is not None and len(found) != count):
        number = "no job" if not found else f"{len(found)} job(s)"
        raise AssertionError(f"{number} of {_name(task)} with {wanted or 'any arguments'}{_there()}")
    return found[0] if found else Job()


def assert_not_enqueued(task: Any, **wanted: Any) -> None:
    """That no such job is enqueued. Takes what :func:`enqueued` takes."""
    found = enqueued(task, **wanted)
    if found:
        raise AssertionError(f"{len(found)} job(s) of {_name(task)} with {wanted or 'any arguments'}{_there()}")


def drain(*, app: Any = None, queues: Sequence[str] | None = None, limit: int = 1000) -> dict[str, int]:
    """Run what is due, and what that enqueues, until nothing is due. Returns how many ended how, by ``Job.outcome``.

    Arguments:
        app: the Celery app; absent: the current one.
        queues: only jobs of these; absent: of all.
        limit: so many runs at most, for jobs that enqueue themselves for ever.

    A job that is to be tried again later stays RETRY: move the clock with :func:`travel` and drain again. Raises ``AssertionError`` for a task type that the
    app doesn't know, and past *limit*.
    """
    app = app or inline.app_of_this_process()
    ended: Counter[str] = Counter()
    runs = 0
    while staged := _stage(queues):
        for job in staged:
            runs += 1
            if runs > limit:
                raise AssertionError(f"more than {limit} runs: does a job enqueue itself for ever?{_there()}")
            _run(app, job)
            outcome = Job.objects.using(conf.alias()).values_list("outcome", flat=True).get(seq=job.ref.job)
            if outcome is not None:
                ended[outcome] += 1
    return dict(ended)


def perform(job: Job | Any, *, app: Any = None) -> Job:
    """Run one job now, due or not. *job*: a ``Job``, an ``AsyncResult``, or an id. Returns it as it is then.

    Raises ``AssertionError`` when it doesn't wait to be run.
    """
    known = (
        job if isinstance(job, Job) else Job.objects.using(conf.alias()).known_as(str(getattr(job, "id", job))).get()
    )
    term = _lead()
    waiting = Live.objects.using(conf.alias()).waiting().filter(job_id=known.seq)
    ref = [Ref(seq, fence) for seq, fence in waiting.values_list("job_id", "fence")]
    staged = transitions.address(term, {ref[0]: _worker().id}) if ref else []
    if not staged:
        raise AssertionError(
            f"{known} doesn't wait to be run: it is {Job.objects.with_status().get(seq=known.seq).status}"
        )
    _run(app or inline.app_of_this_process(), staged[0])
    return Job.objects.using(conf.alias()).with_status().get(seq=known.seq)


def travel(seconds: float) -> AbstractContextManager[None]:
    """Inside, the ledger's clock is *seconds* ahead: what is scheduled for later is due, what expires has expired. Nested, they add up."""
    return clock.shift(seconds)


# ---- inside ----------------------------------------------------------------------------------------------------------


def _stage(queues: Sequence[str] | None) -> list[Staged]:
    due = Live.objects.using(conf.alias()).due()
    names = set(due.values_list("queue", flat=True).distinct()) if queues is None else set(queues)
    off = switches.read()
    expired = [found.ref for found in queries.expired(1000)]
    for name in ("expired", "expired_retry"):
        transitions.finish(name, expired, Why("testing", "expired before it could start"))
    return transitions.stage(_lead(), dict.fromkeys(names - off.queues, 1), off.types)


def _run(app: Any, staged: Staged) -> None:
    _worker()
    inline.run(app, staged)


def _lead() -> int:
    lease, _ = Lease.objects.using(conf.alias()).get_or_create(name=LEADER, defaults={"renewed_at": clock.Now()})
    return int(lease.term)


def _worker() -> Worker:
    here = fleet_here.current() or fleet_here.begin(f"testing@{socket.gethostname()}")
    worker, _ = Worker.objects.using(conf.alias()).get_or_create(
        id=here.id,
        defaults={
            "hostname": here.hostname,
            "pid": os.getpid(),
            "pool": "testing",
            "lock_key": 0,
            "started_at": clock.Now(),
            "beat_at": clock.Now(),
        },
    )
    return worker


def _name(task: Any) -> str:
    return task if isinstance(task, str) else str(task.name)


def _has(job: Job, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> bool:
    body = codec.decode_payload(job.payload)
    return (args is None or list(args) == list(body["args"])) and (kwargs is None or dict(kwargs) == body["kwargs"])


def _there() -> str:
    jobs = enqueued()
    lines = []
    for job in jobs[:20]:
        body = codec.decode_payload(job.payload)
        lines.append(f"\n  {job.task_type} args={body['args']!r} kwargs={body['kwargs']!r} queue={job.queue!r}")
    return f". Enqueued are{''.join(lines) if lines else ' none'}{' …' if len(jobs) > 20 else ''}"
