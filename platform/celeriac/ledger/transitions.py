"""The one writer of a job's state.

Every move is "set if it is still so and still mine": the arrow table says from which status, the fence says of which time.
A row that doesn't come back means that somebody else was first; each function says what its caller learns then.
Nothing here decides anything: what to do with a failure is ``settle.decide``'s, what is due is ``dispatch``'s.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from django.db.models import Exists, F

from celeriac import clock, codes, conf, ids, text
from celeriac.asked import ADOPTED, PROPAGATE, NewJob
from celeriac.ledger.dialects import postgres as sql
from celeriac.ledger.dialects import postgres_mirror
from celeriac.ledger.rows import Claimed, Moved, Staged, Why
from celeriac.ledger.session import atomic, connection, fetch
from celeriac.models import DeadLetter, ErrorEvent, History, Job, Live, Worker
from celeriac.models.live import RESCUED_PRIORITY
from celeriac.outcomes import Failure, Outcome, Ref
from celeriac.redaction import Redactor
from celeriac.states import BY_NAME, ENDED, LIVE, Arrow, ParkedReason, Status, arrow

# ---- births ----------------------------------------------------------------------------------------------------------


def accept(jobs: Sequence[NewJob]) -> set[uuid.UUID]:
    """Write both rows of each job in the caller's transaction. Returns the task ids that were new.

    A task id that exists already is left as it is; what that means is for the caller to say.
    """
    now = clock.now_sql()
    if len(jobs) == 1:
        job = jobs[0]
        given = {name: value for name, value in _columns(job).items() if value}
        return {job.task_id} if fetch(sql.accept_one(now, tuple(given), job.fresh), given) else _descend(jobs)
    rows = [_columns(job) for job in jobs]
    if not rows:
        return set()
    found = fetch(sql.accept_many(now), {name: [row[name] for row in rows] for name in rows[0]})
    new = {row[1] for row in found}
    return new if len(new) == len(jobs) else new | _descend([job for job in jobs if job.task_id not in new])


def _descend(jobs: Sequence[NewJob]) -> set[uuid.UUID]:
    """Of *jobs*, whose ids exist, those that a canvas sends for a job that it has replaced: the same job, with another body."""
    wanted = {job.task_id: job for job in jobs}
    parked = Live.objects.using(conf.alias()).parked(ParkedReason.REPLACED).filter(job__task_id__in=wanted)
    done = set()
    for seq, fence, task_id in parked.values_list("job_id", "fence", "job__task_id"):
        job = wanted[task_id]
        why = Why("enqueue", f"the last of what took its place is here: {job.task_type}")
        with atomic():
            moved = shift(
                "descended", [Ref(seq, fence)], why, delay=job.delay, also="l.parked_reason = 'replaced'", wait=True
            )
            if moved:
                body = {"task_type": job.task_type, "queue": job.queue}
                Job.objects.using(conf.alias()).filter(seq=seq).update(payload=job.payload, **body)
                Live.objects.using(conf.alias()).filter(job_id=seq).update(time_limit=job.time_limit, **body)
                done.add(task_id)
    return done


def upstream_failed(task_id: uuid.UUID, failure: Failure, *, tell: bool) -> bool:
    """The canvas that replaced the job of *task_id* failed: the job has, too. Returns whether it was such a job.

    *tell*: its chord and its chain are told; Celery hasn't.
    """
    parked = Live.objects.using(conf.alias()).parked(ParkedReason.REPLACED).filter(job__task_id=task_id)
    for seq, fence in parked.values_list("job_id", "fence"):
        why = Why("worker", f"what took its place failed: {failure.kind}: {failure.message}")
        return bool(finish("upstream_failed", [Ref(seq, fence)], why, failure, wait=True, tell=tell))
    return False


def progress(ref: Ref, said: str) -> bool:
    """What a run says of itself while it runs (JSON), until it ends. Returns whether the run is still the job's."""
    running = Live.objects.using(conf.alias()).running().filter(job_id=ref.job, fence=ref.fence)
    return bool(
        Job.objects.using(conf.alias()).filter(seq=ref.job, outcome=None).filter(Exists(running)).update(result=said)
    )


def _columns(job: NewJob) -> dict[str, Any]:
    parked = job.parked_reason
    return {
        "task_id": job.task_id,
        "alias": job.alias,
        "task_type": job.task_type,
        "queue": job.queue,
        "priority": job.priority,
        "biz_id": job.biz_id,
        "trace_id": job.trace_id,
        "root_id": job.root_id,
        "parent_id": job.parent_id,
        "group_id": job.group_id,
        "payload": job.payload,
        "retry_count": job.retry_count,
        "status": "PENDING" if parked is None else "PARKED",
        "run_at": job.run_at,
        "delay": job.delay,
        "expires_at": job.expires_at,
        "expires_in": job.expires_in,
        "time_limit": job.time_limit,
        "parked_reason": None if parked is None else parked.value,
    }


# ---- dispatch --------------------------------------------------------------------------------------------------------


def stage(
    term: int, room: Mapping[str, int], paused: Collection[str], most: Mapping[str, int] | None = None
) -> list[Staged]:
    """PENDING, RETRY → DISPATCHED: up to ``room[queue]`` due jobs a queue, none of a *paused* type, of some types at *most* so many.

    Nothing is staged when *term* is no longer the lease's: the caller has been replaced.
    """
    if not room:
        return []
    params = {"term": term, "queues": list(room), "limits": list(room.values()), "paused": list(paused)}
    if most:
        params |= {"limited": list(most), "most": list(most.values())}
    return [_staged(row) for row in fetch(sql.stage(clock.now_sql(), bool(most)), params)]


def address(term: int, jobs: Mapping[Ref, uuid.UUID]) -> list[Staged]:
    """PENDING, RETRY → DISPATCHED, each through the own queue of the worker that it is given. Under the leader's *term*, as :func:`stage`."""
    if not jobs:
        return []
    params = {
        "term": term,
        "jobs": [ref.job for ref in jobs],
        "fences": [ref.fence for ref in jobs],
        "workers": list(jobs.values()),
    }
    return [_staged(row) for row in fetch(sql.address(clock.now_sql()), params)]


def again(
    term: int,
    *,
    everything: bool = False,
    short: Collection[str] = (),
    short_workers: Collection[uuid.UUID] = (),
    limit: int = 500,
) -> list[Staged]:
    """DISPATCHED jobs to send once more, under the fence they have: a stale copy of the same fence can claim only once.

    Arguments:
        everything: the broker was wiped; all of them.
        short: queues whose broker queue is shorter than what the ledger has dispatched.
        short_workers: workers of whose own queue that is so.
        limit: how many at most in one call.

    Without evidence: those of older terms, and those that have waited for their growing delay.
    """
    params = {
        "term": term,
        "everything": everything,
        "short": list(short),
        "short_workers": list(short_workers),
        "first": conf.get("RESEND_AFTER"),
        "most": conf.get("RESEND_AFTER_MAX"),
        "limit": limit,
    }
    return [_staged(row) for row in fetch(sql.again(clock.now_sql()), params)]


def _staged(row: tuple[Any, ...]) -> Staged:
    return Staged(Ref(row[0], row[1]), *row[2:])


# ---- claim and settle ------------------------------------------------------------------------------------------------


def claim(refs: Sequence[Ref], limits: Sequence[float | None], worker: uuid.UUID, pid: int) -> list[Claimed]:
    """DISPATCHED → RUNNING for incarnation *worker*, child *pid*, each under its next fence.

    Arguments:
        refs: the jobs with the fences of their messages.
        limits: hard limit in seconds of each one's task type, ``None`` for none; a limit of the call goes before it.

    A job that doesn't come back was claimed before, taken back, has expired, or the incarnation was given up.
    """
    params = {
        "jobs": [ref.job for ref in refs],
        "fences": [ref.fence for ref in refs],
        "limits": list(limits),
        "worker": worker,
        "pid": pid,
        "grace": conf.get("DEADLINE_GRACE"),
    }
    return [Claimed(Ref(row[0], row[1]), *row[2:]) for row in fetch(sql.claim(clock.now_sql()), params)]


#: A run whose worker was given up for nothing: held for review, and nobody has touched the job since (the fence says so).
_REVIEW: Final = "l.status = 'PARKED' AND l.parked_reason = 'review'"


def settle(
    outcomes: Sequence[Outcome],
    worker: uuid.UUID,
    redact: Redactor,
    along: Callable[[Outcome], None] | None = None,
    only_child: int | None = None,
    *,
    elsewhere: bool = False,
    wait: bool = True,
) -> list[Ref]:
    """Write how runs ended, what they wanted to send, and what explains it, in one transaction. Returns what was settled.

    Arguments:
        outcomes: each under the fence of its claim.
        worker: the incarnation that claimed them.
        along: called in the transaction for each outcome that was settled (chord counters, Celery's failure propagation).
        only_child: settle only what this child has claimed (the main process speaks for a dead child).
        elsewhere: the caller is not the run: what Celery does along with an end is left to a job of its own.
        wait: for rows that somebody holds; the scheduler doesn't, and looks again in its next pass.

    A job that was taken from this worker and is held for review still takes its outcome while its fence is the claim's: the run was alive
    after all. Any other outcome that doesn't come back is refused: nothing of it is written.
    """
    plain = [o for o in outcomes if o.status is Status.SUCCEEDED and not o.sends]
    guard = f"l.status = 'RUNNING' AND l.worker = '{worker}'" + (
        f" AND l.child_pid = {int(only_child)}" if only_child else ""
    )
    settled: list[Ref] = []
    mirrored = bool(conf.get("MIRROR_RESULTS"))
    if along is None and not elsewhere and not mirrored and len(plain) == len(outcomes):
        settled = [m.ref for m in _end(outcomes, guard, wait)]
        if len(settled) == len(outcomes):
            return settled
        outcomes = [o for o in outcomes if o.ref not in settled]
    with atomic():
        happened = _written(outcomes, guard, wait)
        if only_child is None:
            late = [o for o in outcomes if o.ref not in happened and f"late_{o.arrow}" in BY_NAME]
            happened |= _written(late, _REVIEW, wait)
        for outcome in outcomes:
            move = happened.get(outcome.ref)
            if move is None:
                continue
            settled.append(outcome.ref)
            _explain(outcome, move, worker, redact)
            if outcome.sends:
                accept(outcome.sends)
            if along is not None:
                along(outcome)
        if elsewhere:
            done = {ref.job for ref in settled}
            propagate_later({o.ref.job: o.arrow for o in outcomes if o.status in ENDED and o.ref.job in done})
        if mirrored:
            mirror([ref.job for ref in settled])
    return settled


def _written(outcomes: Sequence[Outcome], guard: str, wait: bool) -> dict[Ref, Moved]:
    ended = [o for o in outcomes if o.status in ENDED]
    moved = [o for o in outcomes if o.status in LIVE]
    return {m.ref: m for m in (*_end(ended, guard, wait), *_move(moved, guard, wait))}


def _explain(outcome: Outcome, move: Moved, worker: uuid.UUID, redact: Redactor) -> None:
    """The rows that say why, beside the move itself."""
    late = move.source is Status.PARKED
    step = arrow(f"late_{outcome.arrow}" if late else outcome.arrow)
    failure = outcome.failure
    if step.exceptional:
        reason = outcome.reason or (f"{failure.code}: {failure.kind}: {failure.message}" if failure else "")
        if late:
            reason = f"its worker was alive after all{': ' if reason else ''}{reason}"
        _history(
            [(outcome.ref, step, move.source, outcome.status, move.attempt)], Why("worker", redact.text(reason), worker)
        )
    if failure is None:
        return
    shown = {
        "message": text.storable(redact.text(failure.message), 4000),
        "traceback": text.storable(redact.text(failure.traceback), 20000),
    }
    ErrorEvent.objects.using(conf.alias()).create(
        job_id=outcome.ref.job,
        task_type=outcome.task_type,
        error_code=failure.code[: codes.MAX_LENGTH],
        kind=failure.kind[:255],
        stack_trace_hash=failure.fingerprint,
        occurred_at=clock.Now(),
        attempt=move.attempt,
        retry_count=move.retry_count,
        worker=worker,
        **shown,
    )
    if outcome.status is Status.DEAD_LETTER:
        open_letter(outcome.ref, outcome.task_type, outcome.queue, failure, shown, move.attempt, outcome.args_repr)


def open_letter(
    ref: Ref, task_type: str, queue: str, failure: Failure, shown: Mapping[str, str], attempts: int, args_repr: str
) -> None:
    """The dead letter of a job that has just become one; in the same transaction."""
    DeadLetter.objects.using(conf.alias()).create(
        job_id=ref.job,
        task_type=task_type,
        queue=queue,
        error_code=failure.code[: codes.MAX_LENGTH],
        kind=failure.kind[:255],
        args_repr=text.storable(args_repr, 4000),
        attempts=attempts,
        opened_at=clock.Now(),
        fence=ref.fence,
        **shown,
    )


# ---- moves of the scheduler, the fleet and people --------------------------------------------------------------------


def shift(
    name: str,
    refs: Sequence[Ref],
    why: Why,
    *,
    parked: ParkedReason | None = None,
    delay: float | None = None,
    priority: int | None = None,
    suspicion: int | None = None,
    also: str = "",
    wait: bool = False,
) -> list[Moved]:
    """Make the live → live move called *name* for *refs*, with its history. Returns those that moved.

    Arguments:
        parked: the reason, for a move to PARKED.
        delay: seconds until due again, absent: it keeps its place in the line.
        priority: new dispatch priority, absent: unchanged.
        suspicion: with how many lost workers it was aboard, absent: unchanged.
        also: further guard, SQL over ``l``, made by code of ours only.
        wait: for rows that somebody holds; else they are left for the next pass, as the scheduler wants it.
    """
    step = arrow(name)
    if not refs:
        return []
    guard = _guard(step) + (f" AND {also}" if also else "")
    params = _move_params(refs, step, delay=delay, parked=parked, priority=priority, suspicion=suspicion)
    with atomic():
        moved = [_moved(row) for row in fetch(sql.move(clock.now_sql(), guard, wait), params)]
        if step.exceptional:
            _history([(m.ref, step, m.source, step.target, m.attempt) for m in moved], why)
    return moved


def finish(
    name: str,
    refs: Sequence[Ref],
    why: Why,
    failure: Failure | None = None,
    *,
    wait: bool = False,
    tell: bool = True,
) -> list[Moved]:
    """Make the live → ended move called *name* for *refs*, with its history. Returns those that ended. *wait* as for :func:`shift`.

    *tell*: chords, chains and errbacks are told.
    """
    step = arrow(name)
    if not refs:
        return []
    guard = _guard(step)
    count = len(refs)
    params = {
        "jobs": [ref.job for ref in refs],
        "fences": [ref.fence for ref in refs],
        "outcomes": [step.target.value] * count,
        "results": [None] * count,
        "codes": [failure.code if failure else None] * count,
        "errors": [_error_text(failure)] * count,
        "lost_by": [0] * count,
        "raise_by": [int(step.raises_fence)] * count,
    }
    with atomic():
        ended = [_moved(row) for row in fetch(sql.end(clock.now_sql(), guard, wait), params)]
        _history([(m.ref, step, m.source, step.target, m.attempt) for m in ended], why)
        if tell:
            propagate_later({m.ref.job: step.name for m in ended})
        if conf.get("MIRROR_RESULTS"):
            mirror([m.ref.job for m in ended])
    return ended


def revive(job: int, fence: int, why: Why, payload: str | None = None, time_limit: float | None = None) -> Ref | None:
    """DEAD_LETTER → PENDING: a new life under a higher fence, with other arguments where *payload* is given.

    Returns the new handle, or ``None`` when the job isn't a dead letter of that fence any more.
    """
    step = arrow("redelivered")
    with atomic():
        rows = fetch(
            sql.revive(clock.now_sql()), {"job": job, "fence": fence, "payload": payload, "time_limit": time_limit}
        )
        if not rows:
            return None
        ref = Ref(job, rows[0][0])
        _history([(ref, step, Status.DEAD_LETTER, step.target, 0)], why)
        if conf.get("MIRROR_RESULTS"):
            fetch(postgres_mirror.REMOVE, {"jobs": [job]})
    return ref


def close(name: str, job: int, fence: int, why: Why) -> bool:
    """DEAD_LETTER → SUCCEEDED ("resolved") or CANCELLED ("ignored"). ``False`` when it isn't a dead letter of that fence any more."""
    step = arrow(name)
    with atomic():
        rows = fetch(sql.close(clock.now_sql()), {"job": job, "fence": fence, "outcome": step.target.value})
        if rows:
            _history([(Ref(job, fence), step, Status.DEAD_LETTER, step.target, rows[0][0])], why)
            propagate_later({job: name})
            if conf.get("MIRROR_RESULTS"):
                mirror([job])
    return bool(rows)


def mirror(jobs: Sequence[int]) -> None:
    """Write how *jobs* ended where django-celery-results keeps results (``CELERIAC["MIRROR_RESULTS"]``); of those that live on nothing is written.

    In the transaction of the move itself, and last: the traceback is in the row that explains it. Nothing of ours ever reads it.
    """
    if jobs:
        fetch(postgres_mirror.WRITE, {"jobs": sorted(jobs)})


#: Somebody waits for its end: a chord, a chain, an errback, or whoever sent it by plain Celery.
_CONCERNS: Final = rf'"(chord|chain|errbacks|{ADOPTED})":'


def propagate_later(ended: Mapping[int, str]) -> None:
    """A job of the platform's own for each of *ended* (by the move that ended it) whose end means something to others.

    In the transaction of the move itself.
    """
    if not ended:
        return
    concerned = Job.objects.using(conf.alias()).filter(seq__in=ended, payload__regex=_CONCERNS)
    accept(
        [
            NewJob(
                task_id=uuid.UUID(ids.new()),
                task_type=PROPAGATE,
                queue=job.queue,
                payload=json.dumps({"args": [job.seq, job.fence, ended[job.seq]]}, separators=(",", ":")),
                root_id=job.root,
                parent_id=job.task_id,
                trace_id=job.trace,
                fresh=True,
            )
            for job in concerned
        ]
    )


def note(event: str, refs: Iterable[Ref], why: Why) -> None:
    """A line of history for something that is no move (sent again, an outcome refused)."""
    rows = [
        History(
            job_id=r.job,
            at=clock.Now(),
            event=event,
            fence=r.fence,
            reason=why.reason[:2000],
            actor=why.actor,
            worker=why.worker,
        )
        for r in refs
    ]
    History.objects.using(conf.alias()).bulk_create(rows)


def count_refused(worker: uuid.UUID, outcomes: int) -> None:
    """So many outcomes of incarnation *worker* came after their jobs had been taken from it."""
    Worker.objects.using(conf.alias()).filter(pk=worker).update(refused=F("refused") + outcomes)


# ---- shared ----------------------------------------------------------------------------------------------------------


def _guard(step: Arrow) -> str:
    assert step.source is not None, f"{step.name} is a birth"
    return f"l.status = '{step.source.value}'"


def _end(outcomes: Sequence[Outcome], guard: str, wait: bool) -> list[Moved]:
    if not outcomes:
        return []
    params = {
        "jobs": [o.ref.job for o in outcomes],
        "fences": [o.ref.fence for o in outcomes],
        "outcomes": [o.status.value for o in outcomes],
        "results": [o.result for o in outcomes],
        "codes": [o.failure.code if o.failure else None for o in outcomes],
        "errors": [_error_text(o.failure) for o in outcomes],
        "lost_by": [o.lost_by for o in outcomes],
        "raise_by": [0] * len(outcomes),
    }
    return [_moved(row) for row in fetch(sql.end(clock.now_sql(), guard, wait), params)]


def _move(outcomes: Sequence[Outcome], guard: str, wait: bool) -> list[Moved]:
    if not outcomes:
        return []
    steps = [arrow(o.arrow) for o in outcomes]
    params = {
        "jobs": [o.ref.job for o in outcomes],
        "fences": [o.ref.fence for o in outcomes],
        "targets": [o.status.value for o in outcomes],
        "delays": [o.delay for o in outcomes],
        "run_ats": [o.run_at for o in outcomes],
        "reasons": [o.parked_reason for o in outcomes],
        "retries": [o.retry_count for o in outcomes],
        "lost_by": [o.lost_by for o in outcomes],
        "raise_by": [int(step.raises_fence) for step in steps],
        "priorities": [RESCUED if step.name == "lost" else None for step in steps],
        "suspicions": [_suspicion(o) for o in outcomes],
    }
    moved = [_moved(row) for row in fetch(sql.move(clock.now_sql(), guard, wait), params)]
    payloads = {o.ref.job: o.payload for o in outcomes if o.payload is not None}
    for job in {m.ref.job for m in moved} & payloads.keys():
        with connection().cursor() as cursor:
            cursor.execute("UPDATE celeriac_job SET payload = %s WHERE seq = %s", [payloads[job], job])
    for o in outcomes:
        if o.replaced_by is not None and any(m.ref == o.ref for m in moved):
            task_type, queue = o.replaced_by
            Job.objects.using(conf.alias()).filter(seq=o.ref.job).update(task_type=task_type, queue=queue)
            Live.objects.using(conf.alias()).filter(job_id=o.ref.job).update(task_type=task_type, queue=queue)
    return moved


def _suspicion(outcome: Outcome) -> int | None:
    """A run that ended by itself, or whose own process died, has shown what it is: it is suspected no more."""
    if outcome.suspicion is None and outcome.arrow in ("retried", "lost"):
        return 0
    return outcome.suspicion


def _move_params(
    refs: Sequence[Ref],
    step: Arrow,
    *,
    delay: float | None,
    parked: ParkedReason | None,
    priority: int | None,
    suspicion: int | None,
) -> dict[str, Any]:
    count = len(refs)
    return {
        "jobs": [ref.job for ref in refs],
        "fences": [ref.fence for ref in refs],
        "targets": [step.target.value] * count,
        "delays": [delay] * count,
        "run_ats": [None] * count,
        "reasons": [parked.value if parked else None] * count,
        "retries": [None] * count,
        "lost_by": [0] * count,
        "raise_by": [int(step.raises_fence)] * count,
        "priorities": [priority] * count,
        "suspicions": [suspicion] * count,
    }


#: A job that lost its worker starts before everything that a caller can ask for.
RESCUED: Final = RESCUED_PRIORITY


def _moved(row: tuple[Any, ...]) -> Moved:
    return Moved(Ref(row[0], row[1]), Status(row[2]), *row[3:])


def _error_text(failure: Failure | None) -> str | None:
    return None if failure is None else text.storable(f"{failure.kind}: {failure.message}", 2000)


def _history(moves: Sequence[tuple[Ref, Arrow, Status, Status, int]], why: Why) -> None:
    History.objects.using(conf.alias()).bulk_create(
        History(
            job_id=ref.job,
            at=clock.Now(),
            event=step.name,
            source=source.value,
            target=target.value,
            fence=ref.fence,
            attempt=attempt,
            reason=text.storable(why.reason, 4000),
            actor=why.actor[:150],
            worker=why.worker,
        )
        for ref, step, source, target, attempt in moves
    )
