"""How much may be in the broker, per queue. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from celeriac.ledger.queries import Demand
from celeriac.models.live import RESCUED_PRIORITY

#: A queue is brisk when each of its slots takes at least so many jobs a second: they run for a tenth of a second at most.
BRISK: Final = 10


def rooms(
    demands: Iterable[Demand],
    queues_off: Collection[str],
    brisk: Collection[str] = (),
    reserved: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """How many more jobs of each queue may be dispatched now.

    At most the free slots, so that pausing, priority and cancelling act on the whole backlog; at least one, so that a worker that
    comes up finds something before the next pass. A queue that is switched off gets nothing.

    Of *reserved* queues only what has one of the slots named there: those that have freed up since are a rescued job's.
    Of *brisk* queues one job more for each slot: a slot whose job takes milliseconds would otherwise wait longer for its next one than it works.
    """
    found = {}
    for demand in demands:
        if reserved and demand.queue in reserved:
            room = reserved[demand.queue] - demand.dispatched
        else:
            ahead = demand.slots if demand.queue in brisk else 0
            room = max(1, demand.free_slots) + ahead - demand.dispatched
        if room > 0 and demand.queue not in queues_off:
            found[demand.queue] = room
    return found


def starved(demands: Iterable[Demand], rooms: Collection[str], queues_off: Collection[str]) -> bool:
    """Whether something waits for a slot: one may be free any moment, and nobody rings then."""
    return any(d.waiting and d.queue not in rooms and d.queue not in queues_off for d in demands)


def overtaken(demands: Iterable[Demand], queues_off: Collection[str], reserved: Collection[str] = ()) -> list[str]:
    """Queues whose one message without a free slot stands in the way of a due job of a higher priority, or of a rescued one."""
    return [
        demand.queue
        for demand in demands
        if demand.dispatched > demand.free_slots
        and demand.queue not in queues_off
        and demand.lowest_dispatched is not None
        and (highest := RESCUED_PRIORITY if demand.queue in reserved else demand.highest_due) is not None
        and highest > demand.lowest_dispatched
    ]


class Pace:
    """How many jobs of each queue were dispatched within the last second. Times are the caller's monotonic clock."""

    def __init__(self) -> None:
        self._staged: dict[str, deque[tuple[float, int]]] = {}

    def note(self, queue: str, count: int, now: float) -> None:
        """*count* jobs of *queue* were dispatched."""
        self._staged.setdefault(queue, deque()).append((now, count))

    def brisk(self, demands: Iterable[Demand], now: float) -> set[str]:
        """Queues of *demands* whose slots take jobs at a rate that only short jobs allow."""
        found = set()
        for demand in demands:
            staged = self._staged.get(demand.queue)
            while staged and staged[0][0] < now - 1.0:
                staged.popleft()
            if staged and demand.slots and sum(count for _, count in staged) >= BRISK * demand.slots:
                found.add(demand.queue)
        return found
