"""Claim, run, settle: the way of one job through a pool child, around Celery's own tracer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from billiard import current_process
from billiard.common import terminate_handler_fired
from celery import states
from celery.app.trace import TraceInfo, trace_ok_t
from celery.exceptions import Ignore, SoftTimeLimitExceeded
from celery.utils.log import get_logger

from celeriac.bridge import codec, endings, sentry
from celeriac.bridge.contexts import as_request
from celeriac.bridge.messages import ref_of
from celeriac.bridge.policies import LIMITS, hard_limit, on_stuck_of, soft_limit
from celeriac.claim.claim import claim
from celeriac.errors import PayloadUnreadable
from celeriac.fleet.here import here
from celeriac.ledger.rows import Claimed
from celeriac.outcomes import Ref
from celeriac.run.limits import finish_first
from celeriac.run.limits import soft_limit as ring_after
from celeriac.run.run import Ended, Run
from celeriac.settle.settle import settle

logger = get_logger(__name__)
Tracer = Callable[[str, Any, Any, dict[str, Any] | None], Any]


def guard(task: Any, tracer: Tracer) -> Tracer:
    """Stands in for ``task.__trace__``. A message that isn't ours goes to Celery's tracer as it is."""

    def trace(task_id: str, args: Any, kwargs: Any, request: dict[str, Any] | None = None) -> Any:
        ref = ref_of(request)
        if ref is None:
            return tracer(task_id, args, kwargs, request)
        assert request is not None
        index, page = _index(), here().page
        with page.slot(index) as slot:
            if index is None:
                return _travel(task, tracer, task_id, ref, request, slot)
            with finish_first(lambda: page.doomed(slot)):
                return _travel(task, tracer, task_id, ref, request, slot)

    trace.__wrapped__ = tracer  # type: ignore[attr-defined]
    return trace


def _travel(task: Any, tracer: Tracer, task_id: str, ref: Ref, request: dict[str, Any], slot: int) -> Any:
    hard, _ = request.get(LIMITS) or (None, None)
    limit = hard_limit(task, task.app.conf.task_time_limit, hard)
    claimed = claim([ref], [limit], here().id)
    if not claimed:
        return _ignored()
    with sentry.tagged(claimed[0]):
        return _run(task, tracer, task_id, claimed[0], request, slot, limit)


def _run(
    task: Any, tracer: Tracer, task_id: str, job: Claimed, request: dict[str, Any], slot: int, limit: float | None
) -> Any:
    at, pid = here(), os.getpid()
    limit = job.time_limit or limit
    with Run(job) as run:
        restart = on_stuck_of(task) == "restart"
        at.page.begin(slot, pid, job.ref.job, job.ref.fence, limit, restart=restart)
        traced = _traced(task, tracer, task_id, job, run, request)
        at.page.body_done(slot)
        run.stopped = terminate_handler_fired() and (run.ended is None or run.ended.state != states.SUCCESS)
    if os.getpid() != pid:
        os._exit(
            0
        )  # the body has forked and both copies came back: this job, its pipes and its slot are the first one's
    settled = _settled(run, task, traced)
    at.page.idle(slot)
    if run.stopped:
        raise SystemExit(os.EX_TEMPFAIL)  # the pool's loop expects to be left
    # Refused or spooled: the ledger has not seen a success, so none is shown.
    return traced if settled else _ignored()


def _settled(run: Run, task: Any, traced: Any) -> list[Ref]:
    """Settle *run*. What can't be made into an outcome, or written, ends the job all the same: the child must not die of it."""
    at = here()
    try:
        outcome = endings.outcome_of(run, task, traced)
        told = endings.is_adopted(run) or (run.ended is not None and run.ended.request is not None)
        return settle([outcome], at.id, at.spool, endings.along_of(run, task), elsewhere=not told)
    except (
        Exception
    ) as exc:  # hostile exceptions, numbers that no column holds; a database that is away doesn't come here
        logger.exception("The outcome of %s could not be written", run.claimed.public_id)
        return settle([endings.unwritable(run, task, exc)], at.id, at.spool, elsewhere=True)


def _traced(task: Any, tracer: Tracer, task_id: str, job: Claimed, run: Run, request: dict[str, Any]) -> Any:
    """Celery's tracer with the real arguments. Nothing gets past it: a claimed job always ends in a settle."""
    try:
        body = codec.decode_payload(job.payload)
        full = _request(request, job, body)
        _, set_now = request.get(LIMITS) or (None, None)
        soft = soft_limit(task, body["headers"].get("soft_time_limit"), task.app.conf.task_soft_time_limit, set_now)
        with ring_after(soft, SoftTimeLimitExceeded):
            return tracer(task_id, body["args"], body["kwargs"], full)
    except PayloadUnreadable as exc:
        run.ended = Ended("FAILURE", error=exc)
    except (
        BaseException
    ) as exc:  # SystemExit, KeyboardInterrupt, MemoryError, a soft limit that fired between two lines of the tracer
        if not terminate_handler_fired():
            logger.exception("Task %s[%s] raised %s past Celery's tracer", task.name, task_id, type(exc).__name__)
        run.wish = None
        run.ended = Ended("FAILURE", error=exc, request=None)
    return _ignored()


def _request(request: dict[str, Any], job: Claimed, body: dict[str, Any]) -> dict[str, Any]:
    """The message's request, completed from the ledger."""
    return {
        **request,
        "timelimit": [job.time_limit, body["headers"].get("soft_time_limit")],
        **as_request(job, body, expires=job.expires_at.isoformat() if job.expires_at else None),
    }


def _index() -> int | None:
    """This process's index in the pool, ``None`` in a main process."""
    index = getattr(current_process(), "index", None)
    return None if index is None else int(index)


def _ignored() -> Any:
    """What the tracer returns for a task that ignored itself: no success, no failure, no event."""
    try:
        raise Ignore
    except Ignore as exc:
        from billiard.einfo import ExceptionInfo

        return trace_ok_t(ExceptionInfo(sys.exc_info(), internal=True), TraceInfo("IGNORED", exc), 0.0, None)
