"""What a task says about its retries and limits. Values only: nothing here touches Django, Celery or a clock."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields
from typing import Final, Literal

OnExhausted = Literal["dead_letter", "fail"]
OnLost = Literal["again", "review", "fail"]
OnStuck = Literal["review", "restart"]
OnDeadLetter = Literal["hold", "propagate"]

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "on_exhausted": ("dead_letter", "fail"),
    "on_lost": ("again", "review", "fail"),
    "on_stuck": ("review", "restart"),
    "on_dead_letter": ("hold", "propagate"),
}


def is_seconds(value: object) -> bool:
    """Whether *value* is a number of seconds that the database's intervals and the system's timers can hold (about 30 years)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and 0 <= value <= 1e9


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the n-th retry: ``min(cap, initial * factor**n) + U(0, jitter)`` seconds, n = 0 first.

    Arguments:
        initial: seconds before the first retry.
        factor: growth per retry, at least 1.
        cap: the longest wait in seconds before jitter is added.
        jitter: upper bound in seconds of what is added at random, so that what failed together doesn't come back together.
            The wait is never shorter than the nominal delay: full jitter draws zero, which hammers what just failed.
    """

    initial: float = 60.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = 30.0

    def __post_init__(self) -> None:
        for name in ("initial", "cap", "jitter"):
            value = getattr(self, name)
            if not is_seconds(value):
                raise ValueError(f"Backoff: {name} is {value!r}; give a number of seconds from 0 to 1e9")
        if not isinstance(self.factor, (int, float)) or not math.isfinite(self.factor) or self.factor < 1:
            raise ValueError("Backoff: factor must be at least 1 (1 waits equally long each time)")

    def delay(self, retry: int, rng: random.Random) -> float:
        """Seconds before retry number *retry* (0 is the first)."""
        try:
            nominal = min(self.cap, self.initial * self.factor**retry) if self.initial else 0.0
        except OverflowError:  # 2.0 ** 2000: the cap has been reached long before
            nominal = self.cap
        return nominal + rng.uniform(0.0, self.jitter)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a task's failures, limits and losses are answered. Only the fields you name override the rules and defaults.

    Arguments:
        max_retries: runs after the first one; 0 means a single attempt. Absent: 5.
        backoff: delays between retries. Absent: 60 s doubling, at most an hour, plus up to 30 s.
        timeout: hard limit of one run in seconds: the process is killed. Absent: the task's ``time_limit``, or none.
        soft_timeout: ``SoftTimeLimitExceeded`` is raised in the task after so many seconds. Absent: the task's ``soft_time_limit``.
        on_exhausted: "dead_letter" (default) or "fail".
        on_lost: its worker died: "again" (default), "review" or "fail".
        on_stuck: past its deadline in a pool that can't stop a run: "review" (default) or "restart" the worker.
        on_dead_letter: chains and chords are held ("hold", default), or fail as in Celery ("propagate").

    Raises:
        ValueError: a field has a value that makes no sense; the message names it.
    """

    max_retries: int | None = None
    backoff: Backoff | None = None
    timeout: float | None = None
    soft_timeout: float | None = None
    on_exhausted: OnExhausted | None = None
    on_lost: OnLost | None = None
    on_stuck: OnStuck | None = None
    on_dead_letter: OnDeadLetter | None = None

    def __post_init__(self) -> None:
        if self.max_retries is not None and (type(self.max_retries) is not int or self.max_retries < 0):
            raise ValueError("Policy: max_retries can't be negative (0 means one attempt)")
        for name in ("timeout", "soft_timeout"):
            value = getattr(self, name)
            if value is not None and not (is_seconds(value) and value > 0):
                raise ValueError(f"Policy: {name} is {value!r}; it is in seconds and must be above 0 (at most 1e9)")
        if self.timeout is not None and self.soft_timeout is not None and self.soft_timeout >= self.timeout:
            raise ValueError("Policy: soft_timeout must be shorter than timeout, or it never fires")
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise ValueError(f"Policy: {name} is {value!r}; choose one of {', '.join(map(repr, allowed))}")

    def over(self, lower: Policy) -> Policy:
        """This policy with the fields that it doesn't name taken from *lower*."""
        return Policy(
            **{
                f.name: mine if (mine := getattr(self, f.name)) is not None else getattr(lower, f.name)
                for f in fields(self)
            }
        )


#: What holds for a task with a policy where it names nothing (design: 60 s x 2^n + U(0, 30 s), 5 retries).
DEFAULT: Final = Policy(
    max_retries=5,
    backoff=Backoff(),
    on_exhausted="dead_letter",
    on_lost="again",
    on_stuck="review",
    on_dead_letter="hold",
)
