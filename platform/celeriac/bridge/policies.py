"""A task's policy at work: retries are decided in a wrapper around ``run``, as ``autoretry_for`` does it.

Raised as ``Retry``, the decision takes the tracer's retry path: no errback, no ``task_failure``, no Sentry event per attempt.
"""

from __future__ import annotations

import random
from functools import wraps
from typing import Any, Final

from celery.exceptions import Ignore, Reject, Retry

from celeriac import conf
from celeriac.errors import ConfigurationError, RetryLater
from celeriac.policy import DEFAULT, is_seconds
from celeriac.run.current import current_of
from celeriac.run.run import Wish
from celeriac.settle.decide import on_failure
from celeriac.settle.failure import describe
from celeriac.states import Status

rng = random.SystemRandom()

#: Where a request carries the limits that were set at run time (``control.time_limit``) from the worker's main process to its child.
LIMITS: Final = "celeriac_limits"


def apply(task: Any) -> None:
    """Put our wrapper around *task*'s body: it remembers what the body raised, and gives a task with a policy its retries.

    Remembered, because Celery hands on a copy that survives pickling: an exception with a constructor of its own loses its class and code.
    """
    if hasattr(task, "_celeriac_run"):
        return
    policy = task.policy
    if policy is not None and task.ledger is False:
        raise ConfigurationError(
            f"Task {task.name!r} has a policy= and ledger=False. A policy is the ledger's: take one of them away."
        )
    if policy is not None and (policy.max_retries is not None or type(task).max_retries == 3):
        # An explicit self.retry() obeys the same bound as the policy.
        task.max_retries = policy.over(DEFAULT).max_retries
    body = task._celeriac_run = task.run

    @wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return body(*args, **kwargs)
        except (Ignore, Reject, Retry):
            raise
        except Exception as exc:
            under_way = current_of(task.request.id) if task.request.id else None
            if under_way is None or task.request.is_eager:
                raise
            under_way.raised = exc
            if task.policy is None and not isinstance(exc, RetryLater):
                raise
            decision = on_failure(task.policy, exc, under_way.claimed.retry_count, rng)
            if decision.status is not Status.RETRY:
                raise
            assert decision.retry_count is not None
            under_way.wish = Wish(decision.delay, decision.retry_count, code=describe(exc, "").code)
            raise Retry(exc=exc, when=decision.delay) from exc

    task.run = run


def hard_limit(task: Any, conf_limit: float | None, set_now: float | None = None) -> float | None:
    """Hard limit of one run in seconds: set at run time, then policy, task, the app's setting. A limit of the call goes before all (in ``Live``)."""
    policy = task.policy
    named = policy.timeout if policy is not None else None
    limit = set_now or named or task.time_limit or conf_limit
    return float(limit) if limit and is_seconds(limit) else None


def soft_limit(task: Any, asked: float | None, conf_limit: float | None, set_now: float | None = None) -> float | None:
    """Soft limit of one run in seconds: call, then set at run time, policy, task, the app's setting."""
    policy = task.policy
    named = policy.soft_timeout if policy is not None else None
    limit = asked or set_now or named or task.soft_time_limit or conf_limit
    return float(limit) if limit and is_seconds(limit) else None


def on_lost_of(task: Any | None) -> str:
    """What happens to a job of *task* whose worker died: policy, then ``acks_late``, then the setting."""
    policy = getattr(task, "policy", None)
    if policy is not None:
        return str(policy.over(DEFAULT).on_lost)
    if task is not None and task.acks_late:
        return "again"
    return str(conf.get("ON_LOST"))


def on_stuck_of(task: Any | None) -> str:
    """What happens past its deadline to a run of *task* that can't be killed."""
    policy = getattr(task, "policy", None) or DEFAULT
    return str(policy.over(DEFAULT).on_stuck)
