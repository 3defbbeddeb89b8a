"""The state of the platform, as values: what ``celeriac status`` prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, Min, Q

from celeriac import clock, conf
from celeriac.clock import Now
from celeriac.guard import switches
from celeriac.ledger.dialects import postgres_health as health_sql
from celeriac.ledger.session import fetch
from celeriac.models import DeadLetter, Lease, Live, Worker
from celeriac.models.live import RESCUED_PRIORITY
from celeriac.states import WAITING, Status


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue. ``due`` and ``later`` wait in the ledger; ``dispatched`` is the window, in the broker; ``slots`` are of live workers."""

    name: str
    due: int
    later: int
    dispatched: int
    running: int
    parked: int
    slots: int
    oldest_seconds: float | None
    off: bool
    suspects: int = 0
    """Unfinished jobs that were aboard a worker that was lost."""
    rescued: int = 0
    """Of those that are due, jobs of lost workers: next to start."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One live incarnation."""

    name: str
    id: str
    host: str
    state: str
    pool: str
    queues: list[str]
    slots: int
    free: int


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler that stands ready: who (host:pid), and its seat."""

    holder: str
    seat: str


@dataclass(frozen=True, slots=True)
class State:
    """Everything on one screen."""

    queues: list[QueueState]
    workers: list[WorkerState]
    leader: str
    dead_letters: int
    standbys: list[Scheduler] = field(default_factory=list)
    switched_off: list[str] = field(default_factory=list)


def look() -> State:
    """Read it, in six statements."""
    using = conf.alias()
    off = switches.read()
    workers = list(Worker.objects.using(using).alive().order_by("hostname"))
    slots: dict[str, int] = {}
    for worker in workers:
        if worker.state == Worker.State.ALIVE:
            for queue in worker.queues:
                slots[queue] = slots.get(queue, 0) + worker.slots
    counted = {row["queue"]: row for row in _counts(using)}
    lease = Lease.objects.using(using).filter(name="scheduler").first()
    return State(
        queues=[_queue(name, counted.get(name), slots, off) for name in sorted(counted.keys() | slots.keys())],
        workers=[
            WorkerState(w.hostname, str(w.pk), w.host, w.state, w.pool, w.queues, w.slots, w.free) for w in workers
        ],
        leader=f"{lease.holder}, term {lease.term}" if lease is not None and lease.term else "none has led yet",
        standbys=_standbys(lease.holder if lease is not None else ""),
        dead_letters=DeadLetter.objects.using(using).open().count(),
        switched_off=[f"type {t}" for t in sorted(off.types)] + [f"queue {q}" for q in sorted(off.queues)],
    )


def _queue(name: str, row: dict[str, Any] | None, slots: dict[str, int], off: switches.Switches) -> QueueState:
    row = row or {}
    oldest = row.get("oldest")
    return QueueState(
        name=name,
        due=row.get("due", 0),
        later=row.get("later", 0),
        dispatched=row.get("dispatched", 0),
        running=row.get("running", 0),
        parked=row.get("parked", 0),
        slots=slots.get(name, 0),
        oldest_seconds=oldest.total_seconds() if oldest is not None else None,
        off=name in off.queues,
        suspects=row.get("suspects", 0),
        rescued=row.get("rescued", 0),
    )


def _standbys(leader: str) -> list[Scheduler]:
    sitting = fetch(health_sql.seats(clock.now_sql()), ())
    return [Scheduler(holder, seat) for seat, holder, _silent in sitting if holder != leader]


def _counts(using: str) -> Iterable[Any]:
    waiting = Q(status__in=[s.value for s in WAITING])
    due = waiting & Q(run_at__lte=Now())
    return (
        Live.objects.using(using)
        .values("queue")
        .annotate(
            due=Count("pk", filter=due),
            later=Count("pk", filter=waiting & Q(run_at__gt=Now())),
            dispatched=Count("pk", filter=Q(status=Status.DISPATCHED)),
            running=Count("pk", filter=Q(status=Status.RUNNING)),
            parked=Count("pk", filter=Q(status=Status.PARKED)),
            suspects=Count("pk", filter=Q(suspicion__gt=0)),
            rescued=Count("pk", filter=due & Q(priority=RESCUED_PRIORITY)),
            oldest=ExpressionWrapper(Now() - Min("run_at", filter=due), output_field=DurationField()),
        )
        .order_by()
    )
