"""Speaks for children that died: one thread of the worker's main process, with its own database session.

Guard of every write: this incarnation and the dead child's pid on a RUNNING job, or DISPATCHED under the message's fence (the child died before
its claim). A child that had settled before it died leaves nothing to write. While the database is away the thread waits: a report is
never dropped, and a worker that ends before is found by the scheduler's rescue.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from celery.exceptions import Terminated
from django.db import DatabaseError, InterfaceError, connections

from celeriac import conf, events
from celeriac.bridge import codec
from celeriac.bridge.policies import on_lost_of, rng
from celeriac.errors import HardTimeLimit, PayloadUnreadable, WorkerLost
from celeriac.fleet.memory import Memory
from celeriac.fleet.page import Entry
from celeriac.fleet.sessions import keep_from_children
from celeriac.ledger import queries, transitions
from celeriac.ledger.rows import Why
from celeriac.ledger.transitions import RESCUED
from celeriac.models import Job, Live
from celeriac.outcomes import Outcome, Ref
from celeriac.settle.decide import Decision, on_failure, on_lost
from celeriac.settle.settle import redactor, spoken_for, told
from celeriac.states import ParkedReason, Status

logger = logging.getLogger("celeriac")

_SIGNAL: Final = re.compile(r"signal (\d+) \((\w+)\)")
_EXIT: Final = re.compile(r"exitcode (\d+)")
_STOP: Final = object()


@dataclass(frozen=True, slots=True)
class Death:
    """One report: the job by its message, the child, what the pool said, and how to tell Celery's events."""

    ref: Ref
    task: Any
    pid: int | None
    exc: BaseException
    tell: Callable[[bool, str], None] | None


class Undertaker:
    """Takes reports from the main loop without blocking it; writes them in order."""

    def __init__(self, app: Any, worker: uuid.UUID, memory: Memory) -> None:
        self._app = app
        self._worker = worker
        self._memory = memory
        self._reports: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="celeriac-undertaker", daemon=True)
        self._stopping = threading.Event()
        self._killed: dict[int, Entry] = {}
        self.stopping_worker = False
        """The worker is going down: children that die now were stopped, nobody is charged."""

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Write what was reported, for at most *seconds*, and end."""
        self._reports.put(_STOP)
        self._thread.join(seconds)
        self._stopping.set()

    def will_kill(self, entry: Entry) -> None:
        """The hard limit of *entry* is over and its child is about to be killed by us."""
        self._killed[entry.pid] = entry

    def report(
        self, ref: Ref, task: Any, pid: int | None, exc: BaseException, tell: Callable[[bool, str], None] | None
    ) -> None:
        """A pool call ended without its child saying how."""
        self._reports.put(Death(ref, task, pid, exc, tell))

    def park_unknown(self, ref: Ref, task_type: str) -> None:
        """A job whose type this worker doesn't know: held until a worker that knows it appears."""
        self._reports.put((ref, task_type))

    def write(self, job: Callable[[], None]) -> None:
        """Run *job* (a database write of the main process) here, after what was reported before."""
        self._reports.put(job)

    def _run(self) -> None:
        session = connections[conf.alias()]
        keep_from_children(lambda: session)
        while (item := self._reports.get()) is not _STOP:
            while not self._stopping.is_set():
                try:
                    self._one(item)
                except (DatabaseError, InterfaceError) as exc:
                    logger.warning("The database is away, the undertaker waits: %s", exc)
                    connections[conf.alias()].close()
                    self._stopping.wait(0.5)
                except Exception:
                    logger.exception("The undertaker could not write %r; the scheduler's rescue will find it", item)
                    break
                else:
                    break
        connections.close_all()

    def _one(self, item: Any) -> None:
        if isinstance(item, Death):
            self._bury(item)
        elif isinstance(item, tuple):
            ref, task_type = item
            why = Why("worker", f"no handler: this worker doesn't know {task_type!r}", self._worker)
            for _ in transitions.shift("parked_dispatched", [ref], why, parked=ParkedReason.NO_HANDLER, wait=True):
                name = queries.named([ref.job]).get(ref.job, {})
                events.emit("job.parked", **name, task_type=task_type, reason="no handler", worker=str(self._worker))
        else:
            item()

    def _bury(self, death: Death) -> None:
        killed = self._killed.pop(death.pid or 0, None)
        claimed = Ref(death.ref.job, death.ref.fence + 1)
        live = Live.objects.using(conf.alias()).filter(job_id=claimed.job).first()
        if live is None:
            return
        if live.status == Status.DISPATCHED and live.fence == death.ref.fence:
            why = Why("worker", "its process died before it claimed the job", self._worker)
            transitions.shift("withdrawn", [death.ref], why, priority=RESCUED, wait=True)
            return
        if (live.status, live.fence, live.worker) != (Status.RUNNING, claimed.fence, self._worker):
            return
        evidence = _evidence(death, self._memory)
        ours = killed is not None and (killed.job, killed.fence) == (claimed.job, claimed.fence)
        if ours:
            assert killed is not None
            error: Exception = HardTimeLimit(f"ran longer than its hard limit of {killed.limit:g} s and was killed")
            decision = on_failure(death.task.policy, error, live.retry_count, rng)
            charged = 0
            self._say_timed_out(live, killed)
        elif killed is not None or self.stopping_worker or isinstance(death.exc, Terminated):
            why = Why("worker", "its process was stopped by us", self._worker)
            transitions.shift(
                "handed_back", [claimed], why, priority=RESCUED, wait=True, also=f"l.worker = '{self._worker}'"
            )
            return
        else:
            error = WorkerLost(evidence)
            decision = on_lost(on_lost_of(death.task), live.lost_count + 1, conf.get("MAX_LOST"), evidence)
            charged = 1
        outcome = self._outcome(claimed, decision, error, charged)
        guard_pid = death.pid or live.child_pid
        settled = transitions.settle([outcome], self._worker, redactor(), only_child=guard_pid, elsewhere=True)
        if settled:
            told([outcome], settled, self._worker)
            if death.tell is not None:
                death.tell(decision.status is Status.RETRY, f"{type(error).__name__}: {error}")

    def end_stuck(self, entry: Entry) -> None:
        """The worker starts anew for a run that it can't kill: the run has failed, past its hard limit. Called right before its end."""
        live = Live.objects.using(conf.alias()).running().filter(job_id=entry.job, fence=entry.fence).first()
        if live is None:
            return
        error = HardTimeLimit(
            f"ran longer than its hard limit of {entry.limit:g} s, and its worker started anew for it"
        )
        task = self._app.tasks.get(live.task_type)
        decision = on_failure(getattr(task, "policy", None), error, live.retry_count, rng)
        self._say_timed_out(live, entry)
        outcome = self._outcome(Ref(entry.job, entry.fence), decision, error, 0)
        told([outcome], transitions.settle([outcome], self._worker, redactor(), elsewhere=True), self._worker)

    def _say_timed_out(self, live: Live, entry: Entry) -> None:
        events.emit(
            "job.timed_out",
            **queries.named([entry.job]).get(entry.job, {}),
            task_type=live.task_type,
            threshold_ms=entry.limit * 1000,
            worker=str(self._worker),
        )

    def _outcome(self, ref: Ref, decision: Decision, error: Exception, charged: int) -> Outcome:
        job = Job.objects.using(conf.alias()).get(seq=ref.job)
        return spoken_for(job, ref, decision, error, args_repr=args_repr(job.payload), charged=charged)


def args_repr(payload: str) -> str:
    """Redacted arguments of a stored payload."""
    try:
        body = codec.decode_payload(payload)
    except PayloadUnreadable:
        return "(unreadable)"
    mask = redactor()
    return f"{mask.value(body['args'])} {mask.value(body['kwargs'])}"[:2000]


def _evidence(death: Death, memory: Memory) -> str:
    """Cause of death in words, from what the pool's survivor saw: signal or exit code, memory, the OOM killer."""
    text = str(death.exc)
    found, code = _SIGNAL.search(text), _EXIT.search(text)
    if found:
        said = f"child {death.pid} was killed by signal {found[1]} ({found[2]})"
    elif code:
        said = f"child {death.pid} ended with exit code {code[1]}"
    else:
        said = f"child {death.pid} ended: {text}"[:500]
    seen = memory.evidence(death.pid)
    return f"{said}; {seen}" if seen else said
