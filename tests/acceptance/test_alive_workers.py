"""Whole workers die, stop or stall. Their jobs run elsewhere within seconds, and who only seemed dead settles nothing that it has lost."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import psutil
import pytest

from celeriac.bridge.messages import own_queue
from celeriac.models import Live, Worker
from celeriac.states import Status
from tests.support import effects, leader, probe, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.processes import Member
from tests.support.product import Product
from tests.support.waiting import wait_until

# A noisy machine's slack on what the design bounds; the measured figure is printed.
SLACK = 4.0  # seconds
STALL_AFTER = 4.0  # seconds; the default is 15
SLOTS = 8
QUEUE = "trees"


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """Stalled workers are given up sooner than by default, since tests stop them for as long; a leader judges soon after its start."""
    return {"CELERIAC_STALL_AFTER": str(STALL_AFTER), "CELERIAC_SETTLE_IN": "2"}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, and a worker that nothing is done to."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 2)


@pytest.fixture
def pair(fleet: Fleet, members: None) -> tuple[Member, Member]:
    """Two idle trees of one queue: those that the last test has left, and new ones for those that it has ended."""
    found = [member for member in fleet.members if member.name.startswith(QUEUE) and member.running]
    found += [fleet.worker(QUEUE, SLOTS, extra=QUICKLY, wait=False) for _ in range(2 - len(found))]
    for member in found:
        fleet.wait_for_worker(member)
    leader.wait_until_it_judges(2)
    first, second = found
    return first, second


def _busier(pair: tuple[Member, Member], jobs: list[object]) -> tuple[Member, Member, list[object]]:
    """The tree that runs more of the jobs, the other one, and the jobs of the first."""
    first, second = pair
    on_first = _aboard(first, jobs)
    if 2 * len(on_first) >= len(jobs):
        return first, second, on_first
    return second, first, _aboard(second, jobs)


def _aboard(member: Member, jobs: list[object]) -> list[object]:
    """Those of the jobs that run on this worker."""
    pk = watch.incarnations(member.pid)[-1].pk
    return [job for job in jobs if (live := watch.live(job)) is not None and live.worker == pk]


def _hold(word: str, gate: str, jobs: int = 6) -> list[object]:
    held = [probe.hold.apply_async((word, gate), queue=QUEUE) for _ in range(jobs)]
    watch.comes_to(Status.RUNNING, *held)
    return held


def _given_up(member: Member) -> Worker:
    wait_until(
        lambda: watch.incarnations(member.pid)[-1].state == Worker.State.GONE, what="it is given up", dump=member.tail
    )
    return watch.incarnations(member.pid)[-1]


def _is_told_with_both_readings(verdict: str) -> bool:
    return "beat" in verdict and "lock" in verdict


# ---- killed ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["tree", "main process"])
def test_the_jobs_of_a_killed_worker_start_on_another_within_seconds_and_nobody_is_charged(
    fleet: Fleet, pair: tuple[Member, Member], gate: str, what: str
) -> None:
    jobs = _hold(f"killed {what}", gate)
    doomed, other, lost = _busier(pair, jobs)
    children = doomed.children()

    killed = time.monotonic()
    (doomed.kill_tree if what == "tree" else doomed.kill)()
    wait_until(watch.runs_as(2, *lost), what="they run on the other", every=0.01, dump=fleet.logs)
    took = time.monotonic() - killed

    print(f"\n{what} killed: its {len(lost)} jobs ran on another after {took:.2f} s")
    assert took < 4 + SLACK
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    gone, here = watch.incarnations(doomed.pid)[-1], watch.incarnations(other.pid)[-1]
    assert gone.state == Worker.State.GONE
    assert gone.verdict.startswith("gone")
    assert _is_told_with_both_readings(gone.verdict), gone.verdict
    for job in lost:
        live = watch.live(job)
        assert live is not None
        assert (live.worker, live.suspicion, live.lost_count, live.retry_count) == (here.pk, 1, 0, 0)
    probe.gate(gate).touch()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 6}
    assert [watch.job(job).attempt for job in jobs if job not in lost] == [1] * (6 - len(lost))
    assert effects.count(f"killed {what}") == 6 + len(lost)


def test_with_a_full_survivor_what_was_lost_waits_in_front_of_the_backlog(fleet: Fleet, gate: str) -> None:
    doomed, survivor = fleet.workers(("full", 2), ("full", 2), extra=QUICKLY)
    gates = [f"{gate}-{number}" for number in range(4)]
    running = {job: name for name in gates for job in [probe.hold.apply_async(("full", name), queue="full")]}
    watch.comes_to(Status.RUNNING, *running)
    backlog = [probe.note.apply_async(("full backlog",), queue="full") for _ in range(10)]
    lost = _aboard(doomed, list(running))
    for job in lost:
        os.kill(_child_of(job), signal.SIGSTOP)
        probe.gate(running[job]).touch()  # it ends as soon as it starts again, and not before
    filling = [name for job, name in running.items() if job not in lost]

    killed = time.monotonic()
    doomed.kill_tree()
    seqs = [watch.job(job).seq for job in lost]
    wait_until(
        lambda: Live.objects.due().filter(job_id__in=seqs, priority=10).count() == 2,
        what="they are dispatchable",
        every=0.01,
        dump=lambda: watch.story(lost[0]),
    )
    took = time.monotonic() - killed
    before = len(effects.rows())
    ahead = Live.objects.dispatched().filter(queue="full", suspicion=0).count()
    for name in filling:
        probe.gate(name).touch()
    watch.all_ended([*running, *backlog])

    print(f"\nfull survivor: dispatchable after {took:.2f} s")
    assert took < 2 + SLACK
    order = [word for _, word in effects.rows()[before:]]
    assert order == ["full"] * 2 + ["full backlog"] * 10, (
        f"{ahead} of the backlog were with the broker already: {order}"
    )
    assert [watch.job(job).lost_count for job in lost] == [0, 0]
    assert survivor.stop() == 0


# ---- stopped -----------------------------------------------------------------------------------------------------------------


def test_who_is_stopped_for_a_while_is_left_alone_and_past_the_limit_works_on_as_somebody_new(
    fleet: Fleet, pair: tuple[Member, Member], gate: str
) -> None:
    jobs = _hold("stopped", gate)
    stopped, other, lost = _busier(pair, jobs)
    lives = len(watch.incarnations(stopped.pid))

    # Longer than a dead worker may be silent, shorter than a stalled one.
    stopped.freeze()
    frozen = time.monotonic()
    wait_until(lambda: time.monotonic() - frozen > STALL_AFTER - 1.5, every=0.1, what=f"{STALL_AFTER - 1.5} s")
    stopped.thaw()
    thawed = time.monotonic()
    # A verdict that was on its way would fall now.
    wait_until(lambda: time.monotonic() - thawed > 1.5, every=0.1, what="two beats and two looks")
    assert watch.runs_as(1, *jobs)()
    assert watch.incarnations(stopped.pid)[-1].state == Worker.State.ALIVE

    stopped.freeze()
    frozen = time.monotonic()
    wait_until(watch.runs_as(2, *lost), what="they run on the other", every=0.01, dump=fleet.logs)
    took = time.monotonic() - frozen
    print(f"\ntree stopped: given up, and its jobs ran on another, after {took:.2f} s (limit {STALL_AFTER:g} s)")
    assert STALL_AFTER - 1 < took < STALL_AFTER + 2 + SLACK
    gone = _given_up(stopped)
    assert gone.verdict.startswith("stalled")
    assert _is_told_with_both_readings(gone.verdict), gone.verdict
    probe.gate(gate).touch()
    stopped.thaw()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 6}

    _works_on_as_somebody_new(stopped, lives)
    here = watch.incarnations(other.pid)[-1]
    for job in lost:
        ended = watch.job(job)
        assert (ended.worker, ended.attempt, ended.lost_count, ended.retry_count) == (here.pk, 2, 0, 0)
    assert effects.count("stopped") == 6 + len(lost)
    assert other.stop() == 0
    anew = [probe.note.apply_async(("stopped anew",), queue=QUEUE) for _ in range(10)]
    assert watch.all_ended(anew) == {"SUCCEEDED": 10}
    assert Counter(watch.job(job).worker for job in anew) == {watch.incarnations(stopped.pid)[-1].pk: 10}


def test_a_child_that_is_stopped_before_it_is_handed_a_job_is_replaced_and_the_job_runs(fleet: Fleet) -> None:
    member = fleet.worker("handed", 1, extra=QUICKLY)
    watch.ended(probe.note.apply_async(("handed before",), queue="handed"))
    (child,) = member.children()
    child.suspend()
    begun = time.monotonic()
    jobs = [probe.note.apply_async(("handed",), queue="handed") for _ in range(3)]
    assert watch.all_ended(jobs, dump=member.tail) == {"SUCCEEDED": 3}
    print(f"\nstopped child: what it was handed had run {time.monotonic() - begun:.1f} s later")
    assert effects.count("handed") == 3
    assert [watch.job(job).lost_count for job in jobs] == [0] * 3
    assert member.stop() == 0


def test_a_worker_that_starts_anew_has_one_beat_as_before_and_leaves_neither_children_nor_a_queue_behind(
    fleet: Fleet, product: Product
) -> None:
    schedule = product.folder / "beat-schedule"
    member = fleet.worker("beaten", 1, extra=[*QUICKLY, "--beat", "--schedule", str(schedule)])
    wait_until(lambda: len(member.children()) == 2, what="a pool child and a beat", dump=member.tail)
    before = member.children()
    first = watch.incarnations(member.pid)[-1]

    member.freeze()
    _given_up(member)
    member.thaw()
    _works_on_as_somebody_new(member, 1)

    wait_until(
        lambda: len(member.children()) == 2 and not any(child.is_running() for child in before),
        what="a new pool child and a new beat alone",
        dump=member.tail,
    )
    wait_until(lambda: not product.redis().keys(f"*{own_queue(first.pk)}*"), what="its queue is gone", dump=member.tail)
    watch.ended(probe.note.apply_async(("beaten",), queue="beaten"))
    second = watch.incarnations(member.pid)[-1]
    assert member.stop() == 0
    assert not product.redis().keys(f"*{own_queue(second.pk)}*")


def test_a_main_process_that_stalls_alone_a_late_outcome_counts_only_under_review(
    fleet: Fleet, pair: tuple[Member, Member], gate: str
) -> None:
    # All that is lost has to find a slot on the other, which has jobs of its own.
    jobs = _hold("stalled again", gate, 4)
    stalled, other, lost = _busier(pair, jobs)
    reviewed = [probe.hold_for_review.apply_async(("stalled review", gate), queue=QUEUE) for _ in range(4)]
    watch.comes_to(Status.RUNNING, *reviewed)
    held = _aboard(stalled, reviewed)
    assert held
    lives = len(watch.incarnations(stalled.pid))

    stalled.send(signal.SIGSTOP)  # its children work on
    wait_until(watch.runs_as(2, *lost), what="the ones run elsewhere", dump=fleet.logs)
    watch.comes_to(Status.PARKED, *held)
    for job in held:
        live = watch.live(job)
        assert live is not None
        assert (live.parked_reason, live.lost_count) == ("review", 0)
    probe.gate(gate).touch()

    assert watch.all_ended(reviewed) == {"SUCCEEDED": 4}
    assert [watch.job(job).attempt for job in reviewed] == [1] * 4
    assert all("late_succeeded" in watch.moves(job) for job in held)
    assert (effects.count("stalled review"), effects.count("stalled again")) == (4, 4 + len(lost))
    assert _given_up(stalled).verdict.startswith("stalled")
    wait_until(
        lambda: all("outcome_refused" in watch.moves(job) for job in lost),
        what="the late outcomes of the others are refused",
        dump=lambda: f"{watch.story(lost[0])}\n{stalled.tail()}",
    )
    assert watch.all_ended(jobs) == {"SUCCEEDED": 4}
    here = watch.incarnations(other.pid)[-1].pk
    assert [(watch.job(job).worker, watch.job(job).attempt) for job in lost] == [(here, 2)] * len(lost)
    wait_until(
        lambda: watch.incarnations(stalled.pid)[-1].refused == len(lost), what="they are counted", dump=stalled.tail
    )
    stalled.thaw()
    _works_on_as_somebody_new(stalled, lives)


def _works_on_as_somebody_new(member: Member, lives: int) -> None:
    def anew() -> bool:
        states = [worker.state for worker in watch.incarnations(member.pid)]
        return len(states) == lives + 1 and states[-2:] == ["gone", "alive"]

    wait_until(anew, what="it works on as a new incarnation", dump=member.tail)


def _child_of(job: object) -> int:
    live = watch.live(job)
    assert live is not None
    assert live.child_pid is not None
    return live.child_pid
