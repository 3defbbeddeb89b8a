"""Looking at jobs from outside, and waiting for what becomes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from celeriac.models import ErrorEvent, Job, Live, Worker
from celeriac.states import Status
from tests.support.waiting import LIMIT, wait_until


def find(result: Any) -> Job | None:
    """The job of an ``AsyncResult`` or of an id, as it is now; ``None`` before it is one (a chain's later step)."""
    found: Job | None = Job.objects.known_as(str(getattr(result, "id", result))).with_status().first()
    return found


def job(result: Any) -> Job:
    """The job of an ``AsyncResult`` or of an id, as it is now."""
    found = find(result)
    assert found is not None, f"{result} is no job"
    return found


def live(result: Any) -> Live | None:
    """Where an unfinished job is."""
    return Live.objects.filter(job__task_id=job(result).task_id).first()


def ended(result: Any, timeout: float = LIMIT, dump: Callable[[], str] | None = None) -> Job:
    """The job, once it has ended."""

    def over() -> Job | None:
        seen = find(result)
        return seen if seen is not None and seen.outcome is not None else None

    found = wait_until(over, timeout, what=f"{result} has ended", dump=dump or (lambda: story(result)))
    assert found is not None
    return found


def all_ended(results: Iterable[Any], timeout: float = LIMIT, dump: Callable[[], str] | None = None) -> Counter[str]:
    """How many ended how, once all have."""
    seqs = [job(result).seq for result in results]
    wait_until(
        lambda: not Job.objects.unfinished().filter(seq__in=seqs).exists(),
        timeout,
        what=f"all of {len(seqs)} jobs have ended",
        every=0.05,
        dump=lambda: f"{unfinished()}\n{dump() if dump else ''}",
    )
    return Counter(Job.objects.filter(seq__in=seqs).values_list("outcome", flat=True))


def none_unfinished(timeout: float = LIMIT, dump: Callable[[], str] | None = None) -> Counter[str]:
    """How many of all jobs ended how, once none is unfinished."""
    wait_until(
        lambda: not Job.objects.unfinished().exists(),
        timeout,
        what="no job is unfinished",
        every=0.1,
        dump=lambda: f"{unfinished()}\n{dump() if dump else ''}",
    )
    return Counter(Job.objects.values_list("outcome", flat=True))


def comes_to(status: Status, *results: Any, timeout: float = LIMIT) -> None:
    """Return once all of these jobs are in *status*."""
    wait_until(
        lambda: all(job(result).status is status for result in results),
        timeout,
        what=f"{len(results)} job(s) are {status}",
        dump=lambda: "\n".join(story(result) for result in results if job(result).status is not status),
    )


def messages(result: Any) -> list[str]:
    """The failures of a job's attempts, in order."""
    return list(ErrorEvent.objects.filter(job_id=job(result).seq).order_by("id").values_list("message", flat=True))


def moves(result: Any) -> Sequence[str]:
    """The exceptional moves of a job, in order."""
    from celeriac.models import History

    return list(History.objects.filter(job_id=job(result).seq).order_by("id").values_list("event", flat=True))


def unfinished() -> str:
    """Where the unfinished jobs are, for failure messages."""
    rows = Live.objects.values_list(
        "job_id", "task_type", "queue", "status", "parked_reason", "fence", "attempt", "sent_count"
    )
    return "\n".join(map(str, rows[:20]))


def story(result: Any) -> str:
    """A job's whole story, for failure messages."""
    from celeriac.observe.story import story as told

    seen = find(result)
    if seen is None:
        return f"{result} is no job"
    return "\n".join([f"{seen} {seen.status}", *(f"  {entry}" for entry in told(seen))])


def runs_as(attempt: int, *results: Any) -> Callable[[], bool]:
    """A question for ``wait_until``: whether all of these jobs are RUNNING in their n-th attempt."""

    def running() -> bool:
        seqs = [job(result).seq for result in results]
        found = Live.objects.filter(job_id__in=seqs, status=Status.RUNNING, attempt=attempt)
        return found.count() == len(seqs)

    return running


def worker_of(result: Any) -> Worker:
    """The incarnation that a job ended on."""
    return Worker.objects.get(id=job(result).worker)


def incarnations(pid: int) -> Sequence[Worker]:
    """Every life of the worker process, oldest first."""
    return list(Worker.objects.filter(pid=pid).order_by("started_at"))
