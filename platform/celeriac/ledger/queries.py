"""Questions that steps ask of the ledger. Nothing here writes."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import Count

from celeriac import clock, conf
from celeriac.ledger.dialects import postgres as sql
from celeriac.ledger.dialects import postgres_fleet as fleet_sql
from celeriac.ledger.session import fetch
from celeriac.models import Job, Live, Worker
from celeriac.models.live import LiveQuerySet
from celeriac.outcomes import Ref
from celeriac.states import ParkedReason, Status


@dataclass(frozen=True, slots=True)
class Demand:
    """A queue that has something waiting or dispatched."""

    queue: str
    free_slots: int
    """Of live incarnations that consume it."""
    dispatched: int
    lowest_dispatched: int | None = None
    """Lowest priority of what is dispatched."""
    highest_due: int | None = None
    """Highest priority of what is due; only looked for where something is dispatched."""
    slots: int = 0
    """All slots of live incarnations that consume it, free or not."""
    waiting: bool = True
    """Whether anything waits in the ledger, due or not."""


@dataclass(frozen=True, slots=True)
class Found:
    """A live job as it was when it was looked at."""

    ref: Ref
    status: Status
    task_type: str
    queue: str


def demands(paused: Collection[str] = ()) -> list[Demand]:
    """Queues with something waiting or dispatched, with the free slots of live incarnations. Due jobs of *paused* types don't count."""
    return [Demand(*row) for row in fetch(sql.windows(clock.now_sql()), {"paused": list(paused)})]


def last_in_line(queues: Collection[str]) -> list[Found]:
    """Of each of *queues* the dispatched job with the lowest priority."""
    rows = Live.objects.using(conf.alias()).dispatched().filter(queue__in=queues, suspicion=0)
    return _found(rows.order_by("queue", "priority", "-job_id").distinct("queue"), len(queues))


@dataclass(frozen=True, slots=True)
class Place:
    """A queue of the broker: the one of *queue*, or the own queue of *worker*."""

    queue: str
    worker: uuid.UUID | None = None


def dispatched_by_place() -> dict[Place, int]:
    """How many jobs are DISPATCHED to each place."""
    rows = (
        Live.objects.using(conf.alias()).dispatched().values_list("queue", "worker").annotate(n=Count("pk")).order_by()
    )
    found: dict[Place, int] = {}
    for queue, worker, count in rows:
        place = Place("" if worker else queue, worker)
        found[place] = found.get(place, 0) + count
    return found


@dataclass(frozen=True, slots=True)
class Suspect:
    """A due job that was aboard *suspicion* workers that were lost."""

    ref: Ref
    queue: str
    suspicion: int
    waits: float
    """Seconds since it was due."""


@dataclass(slots=True)
class Room:
    """A worker that consumes, as a place for suspects."""

    worker: uuid.UUID
    queues: list[str]
    free: int
    suspects: int
    """Aboard, or on their way there."""
    worst: int
    """Highest suspicion among them."""


def under_way(queues: Collection[str], types: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
    """How many jobs run or are on their way, of each of *queues* and of each of *types*."""
    by_queue: dict[str, int] = {}
    by_type: dict[str, int] = {}
    for queue, task_type, count in fetch(sql.UNDER_WAY, {"queues": list(queues), "types": list(types)}):
        by_queue[queue] = by_queue.get(queue, 0) + count
        by_type[task_type] = by_type.get(task_type, 0) + count
    return by_queue, by_type


def suspects_due(types_off: Collection[str], queues_off: Collection[str], limit: int = 200) -> list[Suspect]:
    """Due suspects whose type and queue are on, next to start first."""
    params = {"paused": list(types_off), "off": list(queues_off), "limit": limit}
    return [Suspect(Ref(row[0], row[1]), *row[2:]) for row in fetch(sql.suspects_due(clock.now_sql()), params)]


def rooms_for_suspects() -> list[Room]:
    """Every worker that consumes."""
    return [Room(*row) for row in fetch(sql.ROOMS, {})]


def landed(refs: Sequence[Ref], worker: uuid.UUID) -> set[Ref]:
    """Which of *refs* have ended as *worker* settled them: a settle whose answer was lost, or a spool replayed twice."""
    fences = {ref.job: ref for ref in refs}
    ended = (
        Job.objects.using(conf.alias())
        .filter(seq__in=fences, worker=worker, outcome__isnull=False)
        .values_list("seq", "fence")
    )
    return {fences[seq] for seq, fence in ended if fences[seq].fence == fence}


def named(jobs: Collection[int]) -> dict[int, dict[str, str]]:
    """``job_id`` and ``trace_id`` of *jobs*, for what is said of a move that only knows their numbers."""
    rows = Job.objects.using(conf.alias()).filter(seq__in=jobs).only("seq", "task_id", "alias", "root_id", "trace_id")
    return {job.seq: {"job_id": job.public_id, "trace_id": str(job.trace)} for job in rows}


def expired(limit: int) -> list[Found]:
    """Jobs not yet running whose expiry has passed."""
    waiting = [Status.PENDING.value, Status.RETRY.value, Status.DISPATCHED.value]
    return _found(Live.objects.using(conf.alias()).filter(expires_at__lte=clock.Now(), status__in=waiting), limit)


def due_of_types(types: Collection[str], limit: int) -> list[Found]:
    """Due or dispatched jobs of *types*."""
    live = Live.objects.using(conf.alias())
    found = _found(live.dispatched().filter(task_type__in=types), limit)
    return found + _found(live.due().filter(task_type__in=types), limit)


def dispatched_of_queues(queues: Collection[str], limit: int) -> list[Found]:
    """Jobs of *queues* that are in the broker."""
    return _found(Live.objects.using(conf.alias()).dispatched().filter(queue__in=queues), limit)


def not_running(queues: Collection[str], limit: int) -> list[Found]:
    """Unfinished jobs of *queues* that nobody runs."""
    live = Live.objects.using(conf.alias()).filter(queue__in=queues).exclude(status=Status.RUNNING.value)
    return _found(live.order_by("job_id"), limit)


def stamped() -> Iterator[tuple[str, str]]:
    """Public id and payload of every unfinished job that carries stamps. Read in pieces: a backlog may be large."""
    live = Live.objects.using(conf.alias()).filter(job__payload__contains='"stamped_headers":')
    rows = live.order_by("job_id").values_list("job__task_id", "job__alias", "job__payload")
    return ((alias or str(task_id), payload) for task_id, alias, payload in rows.iterator(chunk_size=500))


def parked_switch(types_off: Collection[str], limit: int) -> list[Found]:
    """Jobs parked by a switch that is on again."""
    return _found(Live.objects.using(conf.alias()).parked(ParkedReason.SWITCH).exclude(task_type__in=types_off), limit)


def parked_without_handler(limit: int) -> list[Found]:
    """Jobs parked for want of a handler, of types that a live worker of their queue knows now."""
    known: dict[str, set[str]] = {}
    for queues, tasks in Worker.objects.using(conf.alias()).alive().values_list("queues", "tasks"):
        for queue in queues:
            known.setdefault(queue, set()).update(tasks)
    if not known:
        return []
    parked = _found(Live.objects.using(conf.alias()).parked(ParkedReason.NO_HANDLER), limit)
    return [f for f in parked if f.task_type in known.get(f.queue, ())]


def held_by_workers() -> dict[Place, int]:
    """Messages that live workers have taken and not yet claimed; a worker's count is said of each of its queues, and of its own."""
    held: dict[Place, int] = {}
    rows = Worker.objects.using(conf.alias()).alive().filter(held__gt=0).values_list("id", "queues", "held")
    for worker, queues, count in rows:
        for place in (Place("", worker), *map(Place, queues)):
            held[place] = held.get(place, 0) + count
    return held


def running_on(worker: uuid.UUID) -> list[Ref]:
    """What the ledger says that *worker* runs."""
    rows = Live.objects.using(conf.alias()).running().filter(worker=worker).values_list("job_id", "fence")
    return [Ref(job, fence) for job, fence in rows]


def still_its_own(worker: uuid.UUID, refs: Collection[Ref]) -> set[Ref]:
    """Those of *refs* whose outcomes the ledger would take from *worker*: it runs them, or they are held for review under the same fence."""
    rows = fetch(fleet_sql.STILL_ITS_OWN, [[ref.job for ref in refs], worker])
    return {Ref(job, fence) for job, fence in rows} & set(refs)


def held_for_review(refs: Collection[Ref]) -> set[Ref]:
    """Those of *refs* that are held for review under the same fence."""
    rows = Live.objects.using(conf.alias()).parked(ParkedReason.REVIEW).filter(job_id__in=[ref.job for ref in refs])
    return {Ref(job, fence) for job, fence in rows.values_list("job_id", "fence")} & set(refs)


def _found(rows: LiveQuerySet, limit: int) -> list[Found]:
    values = rows.values_list("job_id", "fence", "status", "task_type", "queue")[:limit]
    return [Found(Ref(job, fence), Status(status), task_type, queue) for job, fence, status, task_type, queue in values]
