"""Limits of the whole fleet, enforced where jobs are dispatched: how many run at once, and how many start in a while.

Celery enforces a rate a worker; ten workers then make ten times of it, and the third party knows nothing of workers. The leading scheduler is
the only one that dispatches, so it can count for all. Its buckets hold a quarter of a second's worth, at least one job: a new leader starts with full
ones, and that is all that a change of leaders can add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from celeriac import conf

BURST: Final = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """What is limited: jobs at once by queue and by type, starts a second by type."""

    queues: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.queues or self.types or self.rates)


def read(rates: Mapping[str, float]) -> Limits:
    """The limits in force: those of the settings, and *rates* (starts a second) as the caller knows them."""
    return Limits(_concurrency("QUEUES"), _concurrency("TYPES"), rates)


def _concurrency(key: str) -> dict[str, int]:
    return {name: said["concurrency"] for name, said in conf.get(key).items() if "concurrency" in said}


class Buckets:
    """Tokens of the types that have a rate. Times are the caller's monotonic clock."""

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[float, float]] = {}

    def room(self, rates: Mapping[str, float], now: float) -> dict[str, int]:
        """How many jobs of each type of *rates* may start now. A rate of 0 is none at all."""
        found = {}
        for name, rate in rates.items():
            most = max(1.0, rate * BURST)
            tokens, since = self._tokens.get(name, (most, now))
            tokens = min(most, tokens + (now - since) * rate)
            self._tokens[name] = (tokens, now)
            found[name] = int(tokens) if rate > 0 else 0
        return found

    def spend(self, types: Iterable[str]) -> None:
        """One token for each of *types*, which have just been dispatched."""
        for name in types:
            if name in self._tokens:
                tokens, since = self._tokens[name]
                self._tokens[name] = (tokens - 1, since)
