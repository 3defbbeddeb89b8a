"""What becomes of a job, decided by values: no Django, no database, no clock."""

from __future__ import annotations

import random
from dataclasses import dataclass

from celeriac.errors import GiveUp, RetryLater, ToDeadLetter
from celeriac.policy import DEFAULT, Policy
from celeriac.states import ParkedReason, Status


@dataclass(frozen=True, slots=True)
class Decision:
    """Where the job goes, by which arrow, after how many seconds, and why."""

    status: Status
    arrow: str
    delay: float = 0.0
    retry_count: int | None = None
    parked: ParkedReason | None = None
    reason: str = ""


def on_failure(policy: Policy | None, error: BaseException | None, retry_count: int, rng: random.Random) -> Decision:
    """The answer to a failed attempt.

    Precedence: what the task raised to steer, then the policy. Without a policy the task keeps Celery's meaning: one attempt.
    """
    if isinstance(error, GiveUp):
        return Decision(Status.FAILED, "failed", reason=str(error))
    if isinstance(error, ToDeadLetter):
        return Decision(Status.DEAD_LETTER, "dead_lettered", reason=str(error))
    if isinstance(error, RetryLater):
        limit = (policy or DEFAULT).over(DEFAULT).max_retries or 0
        if retry_count < limit:
            return Decision(Status.RETRY, "retried", max(0.0, error.after), retry_count + 1, reason=str(error))
        return exhausted(policy or DEFAULT, retry_count)
    if policy is None:
        return Decision(Status.FAILED, "failed")
    full = policy.over(DEFAULT)
    assert full.max_retries is not None
    assert full.backoff is not None
    if retry_count < full.max_retries:
        return Decision(Status.RETRY, "retried", full.backoff.delay(retry_count, rng), retry_count + 1)
    return exhausted(full, retry_count)


def exhausted(policy: Policy, retry_count: int) -> Decision:
    """No retry is left."""
    reason = f"no retry left after {retry_count}" if retry_count else "failed, and its policy has no retries"
    if policy.over(DEFAULT).on_exhausted == "fail":
        return Decision(Status.FAILED, "failed", reason=reason)
    return Decision(Status.DEAD_LETTER, "dead_lettered", reason=reason)


def on_lost(on_lost: str, lost_count: int, max_lost: int, evidence: str) -> Decision:
    """The answer to a death of the job's own process. ``lost_count`` includes this one. Business retries are not spent."""
    if lost_count >= max_lost:
        return Decision(Status.DEAD_LETTER, "dead_lettered", reason=f"its process died {lost_count} times; {evidence}")
    if on_lost == "fail":
        return Decision(Status.FAILED, "failed", reason=evidence)
    if on_lost == "review":
        return Decision(Status.PARKED, "held", parked=ParkedReason.REVIEW, reason=evidence)
    return Decision(Status.RETRY, "lost", reason=evidence)
