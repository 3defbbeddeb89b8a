"""From what Celery's tracer reported to an outcome, and what Celery propagates along with it."""

from __future__ import annotations

import traceback as tracebacks
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from celery import states as celery_states
from celery.exceptions import Reject
from celery.utils.saferepr import saferepr
from django.db import transaction

from celeriac import codes, conf, events
from celeriac.asked import ADOPTED
from celeriac.bridge import codec
from celeriac.bridge.policies import rng
from celeriac.errors import JobError, PayloadUnreadable
from celeriac.ledger import transitions
from celeriac.outcomes import Failure, Outcome
from celeriac.policy import DEFAULT
from celeriac.run.run import Ended, Run
from celeriac.settle.decide import Decision, on_failure
from celeriac.settle.failure import describe
from celeriac.settle.settle import redactor
from celeriac.states import ENDED, ParkedReason, Status


def outcome_of(run: Run, task: Any, traced: Any) -> Outcome:
    """How *run* ended. What left the tracer without an outcome of its own is settled too."""
    ended = run.ended
    if run.stopped:
        return _outcome(run, Decision(Status.PENDING, "handed_back", reason="its process was stopped by us"), None)
    if run.wish is not None:
        return _outcome(
            run, _wished(run), _failure(run, ended) if ended is not None and ended.error is not None else None
        )
    if ended is None:
        return _unreported(run, task, traced)
    if ended.state == celery_states.SUCCESS:
        decision = Decision(Status.SUCCEEDED, "succeeded")
        return _outcome(run, decision, None, result=ended.result, sends=tuple(run.held))
    if ended.state == celery_states.RETRY:
        # Retry raised by hand, with nothing sent: Celery would leave the task in RETRY for ever; a job has a next event.
        delay = float(task.default_retry_delay or 0)
        decision = Decision(
            Status.RETRY, "retried", delay, run.claimed.retry_count + 1, reason="Retry was raised without retry()"
        )
        return _outcome(run, decision, _failure(run, ended))
    failure = _failure(run, ended)
    decision = on_failure(task.policy, run.raised or ended.error, run.claimed.retry_count, rng)
    if isinstance(ended.error, PayloadUnreadable):
        decision = Decision(Status.DEAD_LETTER, "dead_lettered", reason="the stored arguments can't be read")
    return _outcome(run, decision, failure, args_repr=_args_repr(run))


def unwritable(run: Run, task: Any, exc: BaseException) -> Outcome:
    """The last resort: *run* ended in a way that could not be made into an outcome, or that the database can't hold. A person looks at it."""
    failure = describe(exc)
    decision = Decision(Status.DEAD_LETTER, "dead_lettered", reason="its outcome could not be written")
    if task.policy is None:
        decision = Decision(Status.FAILED, "failed", reason="its outcome could not be written")
    return replace(_outcome(run, decision, failure), run_at=None, payload=None, retry_count=None, replaced_by=None)


def along_of(run: Run, task: Any) -> Callable[[Outcome], None] | None:
    """What Celery's backend does beside storing: chord parts, failed chains, errbacks. In settle's transaction, after the move."""
    ended = run.ended
    if is_adopted(run):
        return _tell_later
    request = ended.request if ended is not None else None
    if ended is None or request is None:
        return None
    chord, errbacks, chain = (getattr(request, part, None) for part in ("chord", "errbacks", "chain"))
    if not (chord or (ended.state == celery_states.FAILURE and (errbacks or chain))):
        return None
    backend = task.backend

    def along(outcome: Outcome) -> None:
        try:
            with transaction.atomic(using=conf.alias()):
                if outcome.status is Status.SUCCEEDED and chord:
                    backend.on_chord_part_return(request, celery_states.SUCCESS, ended.value)
                elif outcome.status is Status.FAILED or _propagates(task, outcome):
                    backend.propagate_failure(request, ended.error, ended.traceback, call_errbacks=ended.call_errbacks)
                elif outcome.status is Status.DEAD_LETTER and errbacks and ended.call_errbacks:
                    backend._call_task_errbacks(request, ended.error, ended.traceback)
        except Exception as exc:
            # An errback of the project, called inline, or a chord whose row somebody holds. The outcome stands, and this is tried again.
            events.logger.exception(
                "What Celery does along with %s failed, and is tried again: %r", outcome.task_id, exc
            )
            transitions.propagate_later({outcome.ref.job: outcome.arrow})

    return along


def is_adopted(run: Run) -> bool:
    """Whether plain Celery has sent it, or it follows from such a job."""
    return f'"{ADOPTED}":true' in run.claimed.payload


def _tell_later(outcome: Outcome) -> None:
    """Its chord may be counted in another backend: nothing of that can be in this transaction."""
    if outcome.status in ENDED:
        transitions.propagate_later({outcome.ref.job: outcome.arrow})


def _propagates(task: Any, outcome: Outcome) -> bool:
    policy = task.policy
    return (
        outcome.status is Status.DEAD_LETTER
        and policy is not None
        and policy.over(DEFAULT).on_dead_letter == "propagate"
    )


def _wished(run: Run) -> Decision:
    wish = run.wish
    assert wish is not None
    reason = f"replaced by {wish.replaced_by[0]}" if wish.replaced_by else ""
    return Decision(Status.RETRY, "retried", wish.delay, wish.retry_count, reason=reason)


def _unreported(run: Run, task: Any, traced: Any) -> Outcome:
    info = traced[1]
    state = getattr(info, "state", None)
    if run.replaced:
        decision = Decision(
            Status.PARKED, "replaced", parked=ParkedReason.REPLACED, reason="a canvas of tasks has taken its place"
        )
        return _outcome(run, decision, None, sends=tuple(run.held))
    if state == celery_states.IGNORED:
        return _outcome(run, Decision(Status.CANCELLED, "cancelled", reason="ignored by the task"), None)
    if state == celery_states.REJECTED:
        rejected = getattr(info, "retval", None)
        if isinstance(rejected, Reject) and rejected.requeue:
            # A second's pause: a task that rejects itself for ever must not spin.
            return _outcome(
                run,
                Decision(Status.PENDING, "handed_back", 1.0, reason="rejected by the task, requeue asked for"),
                None,
            )
        error = JobError(
            f"rejected by the task: {getattr(rejected, 'reason', None) or 'no reason given'}", code=codes.REJECTED
        )
    else:
        error = JobError("Celery's tracer reported no outcome", code=codes.UNCLASSIFIED)
    return _outcome(
        run, on_failure(task.policy, error, run.claimed.retry_count, rng), describe(error), args_repr=_args_repr(run)
    )


def _outcome(
    run: Run,
    decision: Decision,
    failure: Failure | None,
    *,
    result: str | None = None,
    sends: Any = (),
    args_repr: str = "",
) -> Outcome:
    job, wish = run.claimed, run.wish
    return Outcome(
        ref=job.ref,
        task_id=job.public_id,
        trace_id=job.trace,
        task_type=job.task_type,
        queue=job.queue,
        status=decision.status,
        arrow=decision.arrow,
        result=result,
        failure=failure,
        delay=decision.delay,
        run_at=wish.run_at if wish is not None else None,
        retry_count=decision.retry_count,
        payload=wish.payload if wish is not None and decision.status is Status.RETRY else None,
        parked_reason=decision.parked.value if decision.parked else None,
        reason=decision.reason,
        sends=sends,
        replaced_by=wish.replaced_by if wish is not None else None,
        seconds=run.seconds,
        args_repr=args_repr,
    )


def _failure(run: Run, ended: Ended) -> Failure:
    error = run.raised or ended.error
    assert error is not None
    trace = ended.traceback if isinstance(ended.traceback, str) and ended.traceback else None
    if trace is None and not isinstance(ended.traceback, str):
        trace = "".join(tracebacks.format_tb(ended.traceback)) if ended.traceback is not None else None
    return describe(error, trace)


def _args_repr(run: Run) -> str:
    try:
        body = codec.decode_payload(run.claimed.payload)
    except PayloadUnreadable:
        return "(unreadable)"
    mask = redactor()
    parts = [mask.text(saferepr(tuple(body["args"]), 1000)), mask.text(saferepr(mask.value(body["kwargs"]), 1000))]
    return " ".join(part for part in parts if part not in ("()", "{}"))
