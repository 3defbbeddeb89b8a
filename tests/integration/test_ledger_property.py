"""Random moves of everybody at once, against real PostgreSQL and beside a model that is a page long.

Accept, stage, duplicate and stale claims, outcomes that come late, hand-backs, revokes, expiry, switches, dead letters and people: after
each step every job is in exactly one place, where the model says, under a fence that never goes back.

LEDGER_SEED repeats a run; LEDGER_EXAMPLES and LEDGER_STEPS make it longer (2000 and 60 for a night).
"""

from __future__ import annotations

import os
import secrets
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field

import hypothesis
import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from celeriac import clock
from celeriac.asked import NewJob
from celeriac.bridge.control import revoke
from celeriac.dispatch import sweep
from celeriac.errors import Moved
from celeriac.guard import switches
from celeriac.ledger import transitions
from celeriac.ledger.rows import Why
from celeriac.models import DeadLetter, History, Job, Live, Worker
from celeriac.models.live import RESCUED_PRIORITY
from celeriac.outcomes import Ref
from celeriac.states import BY_NAME, ENDED, WAITING, ParkedReason, Status, arrow
from celeriac.triage import letters as triage
from celeriac.triage.letters import Decider
from celeriac.upkeep import doctor
from tests.support import letters
from tests.support.ledger import BY_SETTLE, PID, WHY, outcome, settle

SEED = int(os.environ.get("LEDGER_SEED") or secrets.randbelow(2**32))
EXAMPLES = int(os.environ.get("LEDGER_EXAMPLES") or 60)
STEPS = int(os.environ.get("LEDGER_STEPS") or 60)

TYPES = ("shop.sms", "shop.mail")
LATER = 1000.0  # seconds: longer than a step ever takes
LEAP = 2000.0
#: Checks of doctor that say that two tables contradict each other; the others look at processes that don't exist here.
BROKEN = {"unfinished-without-live", "ended-with-live", "dead-letter-without-letter", "letter-without-dead-letter"}

pick = st.integers(0, 50)
seldom = st.sampled_from([False, False, False, False, True])
endings = st.sampled_from(BY_SETTLE)
mostly_one = st.sampled_from([0, 0, 0, 1])  # the same worker may get the same job again
ways_out = st.sampled_from(["run again", "edit", "ignore"])


@dataclass
class Expected:
    """What the model knows of one job."""

    task_id: uuid.UUID
    task_type: str
    status: Status
    priority: int = 0
    asked_priority: int = 0
    fence: int = 0
    due: bool = True
    expires: bool = False
    expired: bool = False
    attempt: int = 0
    retry_count: int = 0
    lost_count: int = 0
    worker: uuid.UUID | None = None
    reason: ParkedReason | None = None

    def move(self, name: str, *, due: bool = True) -> None:
        """Make the arrow called *name*."""
        step = arrow(name)
        assert step.source is self.status, f"the model is wrong: {name} from {self.status}"
        self.status, self.fence = step.target, self.fence + int(step.raises_fence)
        self.due = due
        self.reason = None
        if self.status is not Status.RUNNING:
            self.worker = None


@dataclass(frozen=True)
class Claimed:
    """A run that somebody began, and may still believe in."""

    ref: Ref
    worker: uuid.UUID


@dataclass
class World:
    """Everything that is remembered outside the ledger: jobs, copies of messages, runs, pages that people have open."""

    jobs: dict[int, Expected] = field(default_factory=dict)
    messages: list[Ref] = field(default_factory=list)
    runs: list[Claimed] = field(default_factory=list)
    pages: list[DeadLetter] = field(default_factory=list)
    off: set[str] = field(default_factory=set)


class Ledger(RuleBasedStateMachine):
    """One random story."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.ends = ExitStack()
        self.highest: dict[int, int] = {}
        self.ended: dict[int, tuple[Status, int]] = {}
        self.by_hand = False

    @initialize()
    def begin(self) -> None:
        self.ends.enter_context(transaction.atomic())
        self.ends.callback(transaction.set_rollback, True)
        self.workers = [letters.worker(f"w{n}@host").pk for n in range(2)]
        self.gone = [uuid.uuid4()]
        self.term = letters.lease().term
        self._accept(1, TYPES[0], expires=True)
        for task_type in TYPES:
            self._accept(2, task_type)
        # Every story has a dead letter and a run under way to begin with.
        self.stage(2)
        self.begin_what_was_dispatched(0)
        self._settle([(self.world.runs[-1], "dead_lettered")], later=False)

    def teardown(self) -> None:
        with self.ends:  # the clock and the database are put right again, whatever is found
            if hasattr(self, "term"):
                assert [finding for finding in doctor.examine() if finding.check in BROKEN] == []

    # ---- callers ----

    @rule(
        count=st.integers(1, 3),
        task_type=st.sampled_from(TYPES),
        priority=st.integers(0, 9),
        later=seldom,
        expires=seldom,
        parked=st.sampled_from([None] * 5 + [ParkedReason.NO_HANDLER]),
    )
    def accept(
        self, count: int, task_type: str, priority: int, later: bool, expires: bool, parked: ParkedReason | None
    ) -> None:
        self._accept(count, task_type, priority, later, expires, parked)

    def _accept(
        self,
        count: int,
        task_type: str,
        priority: int = 0,
        later: bool = False,
        expires: bool = False,
        parked: ParkedReason | None = None,
    ) -> None:
        asked = [
            NewJob(
                uuid.uuid4(), task_type, letters.QUEUE, "{}", priority=priority, delay=LATER if later else 0.0,
                expires_in=LATER if expires else None, parked_reason=parked,
            )
            for _ in range(count)
        ]  # fmt: skip
        assert transitions.accept(asked) == {job.task_id for job in asked}
        for job in asked:
            self._know(job, later, expires, parked)

    def _know(self, job: NewJob, later: bool, expires: bool, parked: ParkedReason | None) -> None:
        seq = Job.objects.values_list("pk", flat=True).get(task_id=job.task_id)
        status = Status.PENDING if parked is None else Status.PARKED
        self.world.jobs[seq] = Expected(
            job.task_id,
            job.task_type,
            status,
            job.priority,
            job.priority,
            due=not later,
            expires=expires,
            reason=parked,
        )

    @precondition(lambda self: self.world.jobs)
    @rule(which=pick)
    def accept_an_id_that_is_taken(self, which: int) -> None:
        job = self._job(which)
        assert transitions.accept([NewJob(job.task_id, job.task_type, letters.QUEUE, "{}")]) == set()

    @precondition(lambda self: self.world.jobs)
    @rule(which=pick)
    def revoke(self, which: int) -> None:
        job = self._job(which)
        names = {
            Status.PENDING: "revoked",
            Status.RETRY: "revoked_retry",
            Status.PARKED: "revoked_parked",
            Status.DISPATCHED: "revoked_dispatched",
        }
        before = job.status
        if before in names:
            job.move(names[before])
        assert revoke(str(job.task_id)) is (before in names or before is Status.CANCELLED)

    # ---- the scheduler ----

    @rule(room=st.integers(1, 4))
    def stage(self, room: int) -> None:
        may = {
            seq: job
            for seq, job in self.world.jobs.items()
            if job.status in WAITING and job.due and not job.expired and job.task_type not in self.world.off
        }
        staged = transitions.stage(self.term, {letters.QUEUE: room}, self.world.off)

        assert len(staged) == min(room, len(may))
        assert all(may[one.ref.job].fence == one.ref.fence for one in staged)
        taken = {one.ref.job for one in staged}
        left = [job.priority for seq, job in may.items() if seq not in taken]
        if staged and left:
            assert min(may[seq].priority for seq in taken) >= max(left)
        for one in staged:
            job = self.world.jobs[one.ref.job]
            job.move("dispatched" if job.status is Status.PENDING else "dispatched_again")
            self.world.messages.append(one.ref)

    @rule(room=st.integers(1, 4))
    def stage_under_an_old_term(self, room: int) -> None:
        assert transitions.stage(self.term - 1, {letters.QUEUE: room}, ()) == []

    @rule()
    def another_leader_sends_again(self) -> None:
        lease = letters.lease()
        self.term = lease.term = self.term + 1
        lease.save()
        again = [staged.ref for staged in transitions.again(self.term)]
        assert {ref.job for ref in again} == self._in(Status.DISPATCHED)
        self.world.messages += again

    @precondition(lambda self: self.world.messages)
    @rule(which=pick)
    def withdraw(self, which: int) -> None:
        ref = self._message(which)
        job = self.world.jobs[ref.job]
        expected = job.status is Status.DISPATCHED and job.fence == ref.fence
        assert bool(transitions.shift("withdrawn", [ref], WHY)) is expected
        if expected:
            job.move("withdrawn")

    @rule(task_type=st.sampled_from(TYPES))
    def switch(self, task_type: str) -> None:
        on = task_type in self.world.off
        switches.turn("type", task_type, on=on, actor="amy", reason="")
        (self.world.off.discard if on else self.world.off.add)(task_type)

    @rule()
    def sweep(self) -> None:
        now_off = switches.read()
        assert now_off.types == self.world.off
        sweep.expire(self.term)
        sweep.hold(self.term, now_off)
        sweep.release(self.term, now_off)
        expired = {Status.PENDING: "expired", Status.RETRY: "expired_retry", Status.DISPATCHED: "expired_dispatched"}
        held = {Status.PENDING: "parked", Status.RETRY: "parked_retry", Status.DISPATCHED: "parked_dispatched"}
        for job in self.world.jobs.values():
            if job.expired and job.status in expired:
                job.move(expired[job.status])
            off = job.task_type in self.world.off
            if off and job.status in held and (job.due or job.status is Status.DISPATCHED):
                job.move(held[job.status])
                job.reason = ParkedReason.SWITCH
            elif not off and job.reason is ParkedReason.SWITCH:
                job.move("unparked")

    @rule()
    def time_passes(self) -> None:
        self.ends.enter_context(clock.shift(LEAP))
        for job in self.world.jobs.values():
            job.due = True
            job.expired = job.expires

    @rule(which=st.integers(0, 1))
    def a_worker_is_given_up_and_another_takes_its_place(self, which: int) -> None:
        gone = self.workers[which]
        self.gone.append(gone)
        Worker.objects.filter(pk=gone).update(ended_at=timezone.now(), state="gone")
        self.workers[which] = letters.worker(f"w{which}@host").pk
        lost = [(seq, job) for seq, job in self.world.jobs.items() if job.worker == gone]
        moved = transitions.shift(
            "handed_back", [Ref(seq, job.fence) for seq, job in lost], Why("scheduler"), priority=RESCUED_PRIORITY
        )
        assert len(moved) == len(lost)
        for _, job in lost:
            job.move("handed_back")
            job.priority = RESCUED_PRIORITY

    # ---- workers ----

    @precondition(lambda self: self._in(Status.DISPATCHED))
    @rule(worker=mostly_one)
    def begin_what_was_dispatched(self, worker: int) -> None:
        for ref in [m for m in self.world.messages if self.world.jobs[m.job].status is Status.DISPATCHED]:
            self._claim(ref, self.workers[worker])

    @precondition(lambda self: self.world.messages)
    @rule(which=pick, worker=mostly_one)
    def claim(self, which: int, worker: int) -> None:
        """Any copy of any message that was ever sent."""
        self._claim(self._message(which), self.workers[worker])

    def _claim(self, ref: Ref, me: uuid.UUID) -> None:
        job = self.world.jobs[ref.job]
        expected = job.status is Status.DISPATCHED and job.fence == ref.fence and not job.expired

        claimed = transitions.claim([ref], [None], me, PID)

        assert bool(claimed) is expected
        if expected:
            job.move("claimed")
            job.attempt += 1
            job.worker = me
            assert claimed[0].ref == Ref(ref.job, job.fence)
            assert (claimed[0].attempt, claimed[0].retry_count) == (job.attempt, job.retry_count)
            self.world.runs.append(Claimed(claimed[0].ref, me))

    @precondition(lambda self: self._in(Status.DISPATCHED))
    @rule(which=pick)
    def claim_by_who_was_given_up(self, which: int) -> None:
        for seq in self._in(Status.DISPATCHED):
            gone = self.gone[which % len(self.gone)]
            assert transitions.claim([Ref(seq, self.world.jobs[seq].fence)], [None], gone, PID) == []

    @precondition(lambda self: self._in(Status.RUNNING))
    @rule(which=pick, name=endings, later=seldom)
    def end_what_runs(self, which: int, name: str, later: bool) -> None:
        running = [run for run in self.world.runs if self.world.jobs[run.ref.job].status is Status.RUNNING]
        self._settle([(running[-1 - which % len(running)], name)], later)

    @precondition(lambda self: self._in(Status.RUNNING))
    @rule(which=pick)
    def try_again_at_once(self, which: int) -> None:
        self.end_what_runs(which, "retried", later=False)
        self.stage(20)
        self.begin_what_was_dispatched(0)

    @precondition(lambda self: self._living_dead())
    @rule(which=pick, name=endings)
    def end_what_was_taken_away(self, which: int, name: str) -> None:
        dead = self._living_dead()
        self._settle([(dead[-1 - which % len(dead)], name)], later=False)

    @precondition(lambda self: self.world.runs)
    @rule(runs=st.lists(st.tuples(pick, endings), min_size=1, max_size=3), later=seldom)
    def settle(self, runs: list[tuple[int, str]], later: bool) -> None:
        """Outcomes of any runs that were ever begun, several at once, those of the living dead too."""
        self._settle([(self._run(which), name) for which, name in runs], later)

    def _settle(self, runs: list[tuple[Claimed, str]], later: bool) -> None:
        chosen = {run.ref.job: (run, name) for run, name in runs}
        worker = next(iter(chosen.values()))[0].worker
        mine = [(run, name) for run, name in chosen.values() if run.worker == worker]
        said = [self._outcome(run, name, later) for run, name in mine]

        taken = settle(said, worker)

        expected = []
        for (run, name), spoken in zip(mine, said, strict=True):
            job = self.world.jobs[run.ref.job]
            running = (job.status, job.fence, job.worker) == (Status.RUNNING, run.ref.fence, worker)
            # Held for review, and nobody has touched it since: the run was alive after all.
            held = (job.status, job.reason, job.fence) == (Status.PARKED, ParkedReason.REVIEW, run.ref.fence)
            late = held and f"late_{name}" in BY_NAME
            if not (running or late):
                continue
            expected.append(run.ref)
            job.move(f"late_{name}" if late else name, due=not (later and name in ("retried", "handed_back")))
            job.retry_count = job.retry_count if spoken.retry_count is None else spoken.retry_count
            job.lost_count += spoken.lost_by
            job.reason = ParkedReason.REVIEW if name == "held" else None
            job.priority = RESCUED_PRIORITY if name == "lost" else job.priority
            for send in spoken.sends:
                self._know(send, later=False, expires=False, parked=None)
        assert sorted(taken, key=lambda ref: ref.job) == sorted(expected, key=lambda ref: ref.job)
        refused = [send for spoken in said if spoken.ref not in taken for send in spoken.sends]
        assert not Job.objects.filter(task_id__in=[send.task_id for send in refused]).exists()

    def _outcome(self, run: Claimed, name: str, later: bool):  # type: ignore[no-untyped-def]
        job = self.world.jobs[run.ref.job]
        fields: dict[str, object] = {}
        if name == "succeeded":
            fields = {"result": "1", "sends": (NewJob(uuid.uuid4(), job.task_type, letters.QUEUE, "{}"),)}
        elif name == "retried":
            fields = {"retry_count": job.retry_count + 1, "delay": LATER if later else 0.0}
        elif name == "handed_back":
            fields = {"delay": LATER if later else 0.0}
        elif name == "lost":
            fields = {"lost_by": 1}
        return outcome(name, run.ref, **fields)

    # ---- people ----

    @rule()
    def open_the_pages_of_the_dead_letters(self) -> None:
        self.world.pages += list(DeadLetter.objects.order_by("-pk")[:3])

    @precondition(lambda self: self._in(Status.DEAD_LETTER))
    @rule(which=pick, way=ways_out)
    def decide(self, which: int, way: str) -> None:
        waiting = list(DeadLetter.objects.open())
        self.world.pages.append(waiting[which % len(waiting)])
        self._decide(self.world.pages[-1], way)

    @precondition(lambda self: self.world.pages)
    @rule(which=pick, way=ways_out)
    def decide_on_a_page_that_may_be_out_of_date(self, which: int, way: str) -> None:
        self._decide(self.world.pages[-1 - which % len(self.world.pages)], way)

    def _decide(self, page: DeadLetter, way: str) -> None:
        row = DeadLetter.objects.get(pk=page.pk)
        fresh = page.state == row.state == DeadLetter.State.OPEN and page.version == row.version
        amy = Decider("amy")
        before = History.objects.count()
        self.by_hand = fresh
        try:
            if way == "run again":
                triage.run_again(page, amy, "fixed")
            elif way == "edit":
                triage.edit_and_redeliver(page, amy, "wrong number", [1], {})
            else:
                triage.ignore(page, amy, "spam")
        except Moved:
            assert not fresh
            assert History.objects.count() == before
            return
        assert fresh
        job = self.world.jobs[page.job_id]
        if way == "ignore":
            job.move("ignored")
            return
        job.move("redelivered")
        job.retry_count = job.lost_count = 0
        job.priority = job.asked_priority
        job.expires = job.expired = False

    @precondition(lambda self: any(job.reason is ParkedReason.REVIEW for job in self.world.jobs.values()))
    @rule()
    def take_out_of_review(self) -> None:
        seq, job = next((s, j) for s, j in self.world.jobs.items() if j.reason is ParkedReason.REVIEW)
        assert transitions.shift("unparked", [Ref(seq, job.fence)], Why("amy", "looked at it"))
        job.move("unparked")

    # ---- what always holds ----

    @invariant()
    def every_job_is_in_one_place_and_it_is_the_expected_one(self) -> None:
        rows = {row.pk: row for row in Job.objects.all()}
        lives = {live.pk: live for live in Live.objects.all()}
        assert rows.keys() == self.world.jobs.keys(), "a job came from nowhere, or went"
        assert {seq for seq, row in rows.items() if row.outcome is None} == lives.keys(), "neither of both, or both"
        for seq, job in self.world.jobs.items():
            row, live = rows[seq], lives.get(seq)
            found = live or row
            assert Status(live.status if live else row.outcome) is job.status
            assert (found.fence, found.attempt) == (job.fence, job.attempt)
            assert (found.retry_count, found.lost_count) == (job.retry_count, job.lost_count)
            if live is not None:
                assert (live.worker, live.priority) == (job.worker, job.priority)
                assert live.parked_reason == (job.reason.value if job.reason else None)

    @invariant()
    def no_fence_goes_back_and_no_ended_job_moves_but_by_a_hand(self) -> None:
        moved_by_hand, self.by_hand = self.by_hand, False
        for seq, job in self.world.jobs.items():
            assert job.fence >= self.highest.get(seq, 0)
            self.highest[seq] = job.fence
            before = self.ended.pop(seq, None)
            if before is not None and before != (job.status, job.fence):
                assert moved_by_hand
                assert before[0] is Status.DEAD_LETTER
            if job.status in ENDED:
                self.ended[seq] = (job.status, job.fence)

    # ---- choosing, the latest first: that is where most of what can go wrong is ----

    def _job(self, which: int) -> Expected:
        jobs = list(self.world.jobs.values())
        return jobs[-1 - which % len(jobs)]

    def _message(self, which: int) -> Ref:
        return self.world.messages[-1 - which % len(self.world.messages)]

    def _run(self, which: int) -> Claimed:
        return self.world.runs[-1 - which % len(self.world.runs)]

    def _living_dead(self) -> list[Claimed]:
        """Runs that ended for the ledger, of jobs that run again."""
        running = self._in(Status.RUNNING)
        return [r for r in self.world.runs if r.ref.job in running and r.ref.fence != self.world.jobs[r.ref.job].fence]

    def _in(self, status: Status) -> set[int]:
        return {seq for seq, job in self.world.jobs.items() if job.status is status}


@pytest.mark.slow
@pytest.mark.django_db
def test_whatever_happens_in_whatever_order_every_job_is_in_one_place_under_a_fence_that_only_grows() -> None:
    print(f"LEDGER_SEED={SEED} LEDGER_EXAMPLES={EXAMPLES} LEDGER_STEPS={STEPS}")
    run_state_machine_as_test(
        hypothesis.seed(SEED)(Ledger),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
