"""Whole workers die, stop or stall. Their jobs run elsewhere within seconds, and who only seemed dead settles nothing that it has lost."""

from __future__ import annotations

import signal
import time
from collections import Counter

import psutil
import pytest

from celeriac.models import Live, Worker
from celeriac.states import Status
from tests.support import effects, leader, probe, watch
from tests.support.fleet import Fleet
from tests.support.processes import Member
from tests.support.waiting import wait_until

# A noisy machine's slack on what the design bounds; the measured figure is printed.
SLACK = 4.0  # seconds
STALL_AFTER = 5.0  # seconds; the default is 15
SLOTS = 8


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """Stalled workers are given up sooner than by default: the tests stop them for as long."""
    return {"CELERIAC_STALL_AFTER": str(STALL_AFTER)}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, whose evidence is old enough for verdicts, and a worker that nothing is done to."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 2)
    leader.wait_until_it_judges()


def _busy_one_and_another(fleet: Fleet, queue: str, gate: str, jobs: int) -> tuple[Member, Member, list[object]]:
    """Two workers of a queue, the first of them with all the jobs."""
    doomed = fleet.worker(queue, SLOTS)
    held = [probe.hold.apply_async((f"{queue} held", gate), queue=queue) for _ in range(jobs)]
    watch.comes_to(Status.RUNNING, *held)
    return doomed, fleet.worker(queue, SLOTS), held


def _given_up(member: Member) -> Worker:
    wait_until(
        lambda: watch.incarnations(member.pid)[0].state == Worker.State.GONE, what="it is given up", dump=member.tail
    )
    return watch.incarnations(member.pid)[0]


def _is_told_with_both_readings(verdict: str) -> bool:
    return "beat" in verdict and "lock" in verdict


# ---- killed ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["tree", "main process"])
def test_the_jobs_of_a_killed_worker_start_on_another_within_seconds_and_nobody_is_charged(
    fleet: Fleet, gate: str, what: str
) -> None:
    queue = f"killed-{what[:4]}"
    doomed, other, jobs = _busy_one_and_another(fleet, queue, gate, 6)
    children = doomed.children()

    killed = time.monotonic()
    (doomed.kill_tree if what == "tree" else doomed.kill)()
    wait_until(watch.runs_as(2, *jobs), what="all run on the other", every=0.01, dump=fleet.logs)
    took = time.monotonic() - killed

    print(f"\n{what} killed: its 6 jobs ran on another after {took:.2f} s")
    assert took < 4 + SLACK
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    gone, here = watch.incarnations(doomed.pid)[0], watch.incarnations(other.pid)[0]
    assert gone.state == Worker.State.GONE
    assert gone.verdict.startswith("gone")
    assert _is_told_with_both_readings(gone.verdict), gone.verdict
    for job in jobs:
        live = watch.live(job)
        assert live is not None
        assert (live.worker, live.suspicion, live.lost_count, live.retry_count) == (here.pk, 1, 0, 0)
    probe.gate(gate).touch()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 6}
    assert effects.count(f"{queue} held") == 12
    assert other.stop() == 0


def test_with_a_full_survivor_what_was_lost_waits_in_front_of_the_backlog(fleet: Fleet, gate: str) -> None:
    doomed = fleet.worker("full", 2)
    lost = [probe.hold.apply_async(("full lost", gate), queue="full") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *lost)
    survivor = fleet.worker("full", 2)
    filling = f"{gate}-filling"
    full = [probe.hold.apply_async(("full filling", filling), queue="full") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *full)
    backlog = [probe.note.apply_async(("full backlog",), queue="full") for _ in range(10)]
    probe.gate(gate).touch()  # what was lost is to end as soon as it starts again

    killed = time.monotonic()
    doomed.kill_tree()
    seqs = [watch.job(job).seq for job in lost]
    wait_until(
        lambda: (
            Live.objects.due().filter(job_id__in=seqs, priority=10).count() == 2
            or Live.objects.filter(job_id__in=seqs).count() < 2
        ),
        what="they are dispatchable",
        every=0.01,
        dump=lambda: watch.story(lost[0]),
    )
    took = time.monotonic() - killed
    assert effects.count("full lost") in (2, 4), "one attempt each so far, or both had ended in the nick of time"
    probe.gate(filling).touch()
    watch.all_ended([*lost, *full, *backlog])

    print(f"\nfull survivor: dispatchable after {took:.2f} s")
    assert took < 2 + SLACK
    order = [word for word in effects.words() if word.startswith("full")]
    assert order[-12:-10] == ["full lost"] * 2, order
    assert [watch.job(job).lost_count for job in lost] == [0, 0]
    assert survivor.stop() == 0


# ---- stopped -----------------------------------------------------------------------------------------------------------------


def test_who_is_stopped_for_a_while_is_left_alone_and_past_the_limit_works_on_as_somebody_new(
    fleet: Fleet, gate: str
) -> None:
    stopped, other, jobs = _busy_one_and_another(fleet, "stopped", gate, 4)

    # Longer than a dead worker may be silent, shorter than a stalled one.
    stopped.freeze()
    frozen = time.monotonic()
    wait_until(lambda: time.monotonic() - frozen > STALL_AFTER - 2, every=0.1, what=f"{STALL_AFTER - 2} s")
    assert watch.runs_as(1, *jobs)()
    stopped.thaw()
    thawed = time.monotonic()
    # A verdict that was on its way would fall now.
    wait_until(lambda: time.monotonic() - thawed > 1.5, every=0.1, what="two beats and two looks")
    assert watch.runs_as(1, *jobs)()
    (only,) = watch.incarnations(stopped.pid)
    assert only.state == Worker.State.ALIVE

    stopped.freeze()
    frozen = time.monotonic()
    wait_until(watch.runs_as(2, *jobs), what="all run on the other", every=0.01, dump=fleet.logs)
    took = time.monotonic() - frozen
    print(f"\ntree stopped: given up, and its jobs ran on another, after {took:.2f} s (limit {STALL_AFTER:g} s)")
    assert STALL_AFTER - 1 < took < STALL_AFTER + 2 + SLACK
    gone = _given_up(stopped)
    assert gone.verdict.startswith("stalled")
    assert _is_told_with_both_readings(gone.verdict), gone.verdict
    probe.gate(gate).touch()
    stopped.thaw()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 4}

    wait_until(
        lambda: [w.state for w in watch.incarnations(stopped.pid)] == ["gone", "alive"],
        what="it works on as a new incarnation",
        dump=stopped.tail,
    )
    here = watch.incarnations(other.pid)[0]
    for job in jobs:
        ended = watch.job(job)
        assert (ended.worker, ended.attempt, ended.lost_count, ended.retry_count) == (here.pk, 2, 0, 0)
    assert other.stop() == 0
    anew = [probe.note.apply_async(("stopped anew",), queue="stopped") for _ in range(10)]
    assert watch.all_ended(anew) == {"SUCCEEDED": 10}
    assert Counter(watch.job(job).worker for job in anew) == {watch.incarnations(stopped.pid)[1].pk: 10}
    assert effects.count("stopped held") == 8
    assert stopped.stop() == 0


def test_a_main_process_that_stalls_alone_a_late_outcome_counts_only_under_review(fleet: Fleet, gate: str) -> None:
    stalled = fleet.worker("stalled", SLOTS)
    again = probe.hold.apply_async(("stalled again", gate), queue="stalled")
    reviewed = probe.hold_for_review.apply_async(("stalled review", gate), queue="stalled")
    watch.comes_to(Status.RUNNING, again, reviewed)
    other = fleet.worker("stalled", SLOTS)

    stalled.send(signal.SIGSTOP)  # its children work on
    wait_until(watch.runs_as(2, again), what="the one runs elsewhere", dump=fleet.logs)
    watch.comes_to(Status.PARKED, reviewed)
    held = watch.live(reviewed)
    assert held is not None
    assert (held.parked_reason, held.lost_count) == ("review", 0)
    probe.gate(gate).touch()

    assert watch.ended(reviewed).outcome == "SUCCEEDED"
    assert watch.job(reviewed).attempt == 1
    assert "late_succeeded" in watch.moves(reviewed)
    assert (effects.count("stalled review"), effects.count("stalled again")) == (1, 2)
    assert _given_up(stalled).verdict.startswith("stalled")
    wait_until(
        lambda: "outcome_refused" in watch.moves(again),
        what="the late outcome of the other is refused",
        dump=lambda: f"{watch.story(again)}\n{stalled.tail()}",
    )
    ended = watch.ended(again)
    assert (ended.outcome, ended.worker, ended.attempt) == ("SUCCEEDED", watch.incarnations(other.pid)[0].pk, 2)
    wait_until(lambda: watch.incarnations(stalled.pid)[0].refused == 1, what="it is counted", dump=stalled.tail)
    stalled.thaw()
    wait_until(
        lambda: [w.state for w in watch.incarnations(stalled.pid)] == ["gone", "alive"],
        what="it works on as a new incarnation",
        dump=stalled.tail,
    )
    assert other.stop() == 0
    assert stalled.stop() == 0
