"""How one of the demo's third parties behaves right now. Values and a die; no sockets."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Mode(StrEnum):
    """What can be asked of a third party."""

    OK = "ok"
    SLOW = "slow"  #: answers after `delay` seconds
    FAIL = "fail"  #: answers 500, does nothing
    LIMIT = "limit"  #: serves `rate` calls a second, answers 429 with Retry-After to the rest
    HANG = "hang"  #: accepts and never answers, does nothing
    DIE = "die"  #: stops listening, for `delay` seconds or for good
    DROP = "drop"  #: acts, then closes the connection without an answer


_FIELDS: Final = frozenset({"mode", "delay", "rate", "probability", "seed"})


class BadBehaviour(ValueError):
    """A control request that makes no sense; the message says why."""


@dataclass(slots=True)
class Behaviour:
    """One service's behaviour.

    Arguments:
        mode: what it does.
        delay: seconds, for slow and die (0: for good).
        rate: calls a second that are served, for limit.
        probability: the share of calls that *mode* applies to; the others are served. Not for limit and die.
        seed: makes the draws repeatable.
    """

    mode: Mode = Mode.OK
    delay: float = 0.0
    rate: float = 1.0
    probability: float = 1.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)
    _tokens: float = field(init=False, repr=False, default=1.0)
    _filled_at: float | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @classmethod
    def parse(cls, request: Mapping[str, Any]) -> Behaviour:
        """The behaviour that a control *request* asks for.

        Raises:
            BadBehaviour: an unknown field or mode, or a number that makes no sense.
        """
        if unknown := sorted(set(request) - _FIELDS):
            raise BadBehaviour(f"unknown field {', '.join(unknown)}; known: {', '.join(sorted(_FIELDS))}")
        try:
            behaviour = cls(
                mode=Mode(request.get("mode", "ok")),
                delay=float(request.get("delay", 0.0)),
                rate=float(request.get("rate", 1.0)),
                probability=float(request.get("probability", 1.0)),
                seed=int(request.get("seed", 0)),
            )
        except (TypeError, ValueError) as error:
            raise BadBehaviour(str(error)) from error
        # Asked for positively: every comparison with NaN is false.
        if not (0 <= behaviour.delay < math.inf and behaviour.rate > 0 and 0 <= behaviour.probability <= 1):
            raise BadBehaviour("delay is finite and not negative, rate must be above 0, probability is between 0 and 1")
        return behaviour

    def next(self, now: float) -> Mode:
        """What happens to the call that arrives at *now* (seconds of any steady clock)."""
        if self.mode is Mode.LIMIT:
            return Mode.OK if self._take_token(now) else Mode.LIMIT
        return self.mode if self._random.random() < self.probability else Mode.OK

    @property
    def retry_after(self) -> float:
        """Seconds after which a limited caller should come back."""
        return 1.0 / self.rate

    def _take_token(self, now: float) -> bool:
        # A bucket that holds one second's worth of calls, at least one.
        size = max(1.0, self.rate)
        passed = 0.0 if self._filled_at is None else max(0.0, now - self._filled_at)
        self._tokens = min(size, (size if self._filled_at is None else self._tokens) + passed * self.rate)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
