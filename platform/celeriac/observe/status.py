"""The state of the platform, as values: what ``celeriac status`` prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, Min, Q

from celeriac import conf
from celeriac.clock import Now
from celeriac.guard import switches
from celeriac.models import DeadLetter, Lease, Live, Worker
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


@dataclass(frozen=True, slots=True)
class State:
    """Everything on one screen."""

    queues: list[QueueState]
    workers: list[str]
    leader: str
    dead_letters: int
    switched_off: list[str] = field(default_factory=list)


def look() -> State:
    """Read it, in five statements."""
    using = conf.alias()
    off = switches.read()
    workers = list(Worker.objects.using(using).alive().order_by("hostname"))
    slots: dict[str, int] = {}
    for worker in workers:
        for queue in worker.queues:
            slots[queue] = slots.get(queue, 0) + worker.slots
    counted = {row["queue"]: row for row in _counts(using)}
    lease = Lease.objects.using(using).filter(name="scheduler").first()
    return State(
        queues=[_queue(name, counted.get(name), slots, off) for name in sorted(counted.keys() | slots.keys())],
        workers=[f"{w.hostname}  {w.pool}, {w.slots} slots, {','.join(w.queues)} ({w.state})" for w in workers],
        leader=f"{lease.holder}, term {lease.term}" if lease is not None and lease.term else "none has led yet",
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
    )


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
            oldest=ExpressionWrapper(Now() - Min("run_at", filter=due), output_field=DurationField()),
        )
        .order_by()
    )
