"""How much may be in the broker, per queue. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from celeriac.ledger.queries import Demand


def rooms(demands: Iterable[Demand], queues_off: Collection[str]) -> dict[str, int]:
    """How many more jobs of each queue may be dispatched now.

    At most the free slots, so that pausing, priority and cancelling act on the whole backlog; at least one, so that a worker that
    comes up finds something before the next pass. A queue that is switched off gets nothing.
    """
    found = {}
    for demand in demands:
        room = max(1, demand.free_slots) - demand.dispatched
        if room > 0 and demand.queue not in queues_off:
            found[demand.queue] = room
    return found


def overtaken(demands: Iterable[Demand], queues_off: Collection[str]) -> list[str]:
    """Queues whose one message without a free slot stands in the way of a due job of a higher priority."""
    return [
        demand.queue
        for demand in demands
        if demand.dispatched > demand.free_slots
        and demand.queue not in queues_off
        and demand.highest_due is not None
        and demand.lowest_dispatched is not None
        and demand.highest_due > demand.lowest_dispatched
    ]
