"""Interleaved pairs, and what may be concluded from them. Pure.

On a shared machine speed drifts by tens of per cent within minutes, and for both sides alike. So each round measures
every side once, in turned order (A B, B A, …), and only ratios within a round are compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, comb
from typing import TypeVar

T = TypeVar("T")


def interleaved(sides: Mapping[str, Callable[[], T]], rounds: int) -> Iterator[dict[str, T]]:
    """Measure every side once a round, in turned order, and give what each round found, by side."""
    for number in range(rounds):
        order = list(sides)[:: 1 if number % 2 == 0 else -1]
        yield {name: sides[name]() for name in order}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median, from order statistics: no assumption about how the values are distributed.

    The k-th lowest and k-th highest value enclose the median unless fewer than k values lie on one side of it, each of
    which is one toss of a coin. With fewer than six values no two of them reach 95 %: then it is the lowest and the
    highest, and promises less.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, k = 0.0, 0
    while k < n // 2:
        tail += comb(n, k) / 2**n
        if 2 * tail > 0.05:
            break
        k += 1
    k = max(k, 1)
    return ordered[k - 1], ordered[n - k]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours to theirs, pair by pair."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of all don't exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]
