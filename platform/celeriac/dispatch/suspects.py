"""Where suspects run: jobs that were aboard when a whole worker was lost. Pure.

Nobody knows which of them did it, if any did. They go through workers' own queues, spread, so that a second loss has fewer of them aboard.

* Lost once: they run again at once, one a worker while there are workers without a suspect, then side by side. Most workers are lost
  to a host, a deployment or a tired operator, and jobs that did nothing shouldn't queue up for that.
* Lost twice: *isolated*, one a worker and nobody suspected beside it, so that a third loss says who it was.

Nobody waits for such a place for ever: a minute, doubling with each loss after the second.

The loss of a worker with exactly one suspect aboard is charged to it (``fleet.rescue``).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from celeriac.ledger.queries import Room, Suspect
from celeriac.outcomes import Ref

ISOLATED: Final = 2
ISOLATION: Final = 60.0


@dataclass(frozen=True, slots=True)
class Placed:
    """Who goes where."""

    jobs: dict[Ref, uuid.UUID] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    """Queues whose next free slot is a suspect's, with the slots that are free on workers where it may not go."""


def place(suspects: Iterable[Suspect], rooms: Sequence[Room]) -> Placed:
    """Give each of *suspects* (next to start first) a worker of *rooms* that may take it and has a free slot.

    The rooms are filled as we go.
    """
    placed = Placed()
    for suspect in suspects:
        fit = [room for room in rooms if suspect.queue in room.queues and _may_join(room, suspect)]
        free = [room for room in fit if room.free > 0]
        if not free:
            if fit:
                placed.reserved[suspect.queue] = 0
            continue
        room = min(free, key=lambda room: (room.suspects, -room.free))
        room.free -= 1
        room.suspects += 1
        room.worst = max(room.worst, suspect.suspicion)
        placed.jobs[suspect.ref] = room.worker
    for queue in placed.reserved:
        placed.reserved[queue] = sum(max(0, room.free) for room in rooms if queue in room.queues)
    return placed


def _may_join(room: Room, suspect: Suspect) -> bool:
    if suspect.waits >= ISOLATION * 2 ** min(max(suspect.suspicion - ISOLATED, 0), 6):
        return True
    return room.suspects == 0 if suspect.suspicion >= ISOLATED else room.worst < ISOLATED
