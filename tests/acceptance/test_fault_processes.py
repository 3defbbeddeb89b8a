"""Processes die: children, whole workers, schedulers, killed or told to go. Their jobs run again, and nobody pays who shouldn't."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from celeriac import codes
from celeriac.models import DeadLetter, ErrorEvent, Lease, Worker
from celeriac.states import Status
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.processes import Member
from tests.support.waiting import wait_until

# A noisy machine's slack on what the design bounds; the measured figure is printed.
SLACK = 4.0  # seconds


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, and a worker that never dies."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 4)


def _row(member: Member) -> Worker:
    return Worker.objects.get(pid=member.pid)


def _child_of(result: object) -> int:
    live = watch.live(result)
    assert live is not None
    assert live.child_pid is not None
    return live.child_pid


def _runs_again(result: object, attempt: int) -> Callable[[], bool]:
    def again() -> bool:
        live = watch.live(result)
        return live is not None and live.status == Status.RUNNING and live.attempt == attempt

    return again


# ---- one child ---------------------------------------------------------------------------------------------------------------


def test_a_killed_childs_job_runs_again_and_the_third_death_is_a_dead_letter_with_the_cause(gate: str) -> None:
    neighbours = [probe.hold.delay("neighbour", gate) for _ in range(2)]
    poison = probe.hold.delay("poison", gate)
    watch.comes_to(Status.RUNNING, poison, *neighbours)

    took = []
    for attempt in (2, 3):
        os.kill(_child_of(poison), signal.SIGKILL)
        killed = time.monotonic()
        wait_until(_runs_again(poison, attempt), what="it runs again", every=0.005, dump=lambda: watch.story(poison))
        took.append(time.monotonic() - killed)
    os.kill(_child_of(poison), signal.SIGKILL)
    job = watch.ended(poison)

    print(f"\nchild killed: its job ran again after {took[0]:.2f} s and {took[1]:.2f} s")
    assert max(took) < 1 + SLACK
    assert (job.outcome, job.lost_count, job.retry_count, job.attempt) == ("DEAD_LETTER", 3, 0, 3)
    letter = DeadLetter.objects.open().get(job_id=job.seq)
    assert letter.error_code == codes.WORKER_LOST
    assert "signal 9" in letter.message
    assert ErrorEvent.objects.filter(job_id=job.seq, message__contains="signal 9").count() == 3
    for neighbour in neighbours:
        live = watch.live(neighbour)
        assert live is not None
        assert (live.status, live.attempt, live.lost_count) == (Status.RUNNING, 1, 0)


def test_a_child_that_dies_idle_costs_nothing(fleet: Fleet) -> None:
    member = fleet.members[1]
    before = {child.pid for child in member.children()}
    for pid in before:
        os.kill(pid, signal.SIGKILL)

    jobs = [probe.note.delay("after idle deaths") for _ in range(20)]

    assert watch.all_ended(jobs) == {"SUCCEEDED": 20}
    assert effects.count("after idle deaths") == 20
    assert all(watch.job(job).lost_count == 0 for job in jobs)


# ---- a whole worker ----------------------------------------------------------------------------------------------------------


def test_a_killed_workers_jobs_start_on_another_at_once_and_nobody_is_charged(fleet: Fleet, gate: str) -> None:
    doomed = fleet.worker("trees", 8)
    jobs = [probe.hold.apply_async(("tree", gate), queue="trees") for _ in range(8)]
    watch.comes_to(Status.RUNNING, *jobs)
    other = fleet.worker("trees", 8)

    doomed.kill_tree()
    killed = time.monotonic()
    wait_until(
        lambda: all(_runs_again(job, 2)() for job in jobs),
        what="all run on the other worker",
        every=0.01,
        dump=lambda: f"{watch.unfinished()}\n{fleet.logs()}",
    )
    took = time.monotonic() - killed

    print(f"\nworker tree killed: its 8 jobs ran on another after {took:.2f} s")
    assert took < 4 + SLACK
    here = _row(other).pk
    for job in jobs:
        live = watch.live(job)
        assert live is not None
        assert (live.worker, live.lost_count, live.retry_count) == (here, 0, 0)
    assert (_row(doomed).state, _row(doomed).verdict[:4]) == ("gone", "gone")
    probe.gate(gate).touch()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 8}
    assert other.stop() == 0


def test_a_main_process_that_is_killed_alone_takes_its_children_along(fleet: Fleet, gate: str) -> None:
    doomed = fleet.worker("orphans", 2)
    jobs = [probe.hold.apply_async(("orphans", gate), queue="orphans") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *jobs)
    children = doomed.children()
    doomed.kill()
    other = fleet.worker("orphans", 2)

    wait_until(lambda: not any(child.is_running() for child in children), what="the children are gone")
    wait_until(lambda: all(_runs_again(job, 2)() for job in jobs), what="their jobs run again", dump=fleet.logs)
    probe.gate(gate).touch()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 2}
    assert other.stop() == 0


# ---- told to go --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whom", ["main process", "process group"])
def test_a_worker_told_to_stop_lets_what_runs_finish_and_loses_nothing(fleet: Fleet, gate: str, whom: str) -> None:
    queue = f"term-{whom.replace(' ', '-')}"
    member = fleet.worker(queue, 2)
    running = [probe.hold.apply_async((whom, gate), queue=queue) for _ in range(2)]
    watch.comes_to(Status.RUNNING, *running)
    waiting = [probe.note.apply_async((f"{whom} waiting",), queue=queue) for _ in range(20)]

    (member.send if whom == "main process" else lambda number: os.killpg(member.pid, number))(signal.SIGTERM)
    wait_until(lambda: _row(member).state == "stopping", what="its row says that it is stopping", dump=member.tail)
    assert effects.count(f"{whom} waiting") == 0
    probe.gate(gate).touch()

    assert member.wait(60) == 0
    assert _row(member).state == "stopped"
    assert effects.count(f"{whom} waiting") == 0
    for job in running:
        assert watch.job(job).status is Status.SUCCEEDED, f"{watch.story(job)}\n{member.tail()}"
        assert (watch.job(job).attempt, watch.job(job).lost_count) == (1, 0)
    successor = fleet.worker(queue, 2)
    assert watch.all_ended(waiting) == {"SUCCEEDED": 20}
    assert effects.count(f"{whom} waiting") == 20
    assert successor.stop() == 0


def test_what_runs_longer_than_the_grace_period_is_handed_back_uncharged(fleet: Fleet, gate: str) -> None:
    member = fleet.worker("grace", 2, env={"CELERIAC_STOP_GRACE": "0.5"})
    jobs = [probe.hold.apply_async(("grace", gate), queue="grace") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *jobs)

    member.send(signal.SIGTERM)
    told = time.monotonic()
    assert member.wait(60) == 0
    print(f"\ngrace period 0.5 s: the worker had ended after {time.monotonic() - told:.2f} s")
    assert _row(member).state == "stopped"
    for job in jobs:
        live = watch.live(job)
        assert live is not None
        assert (live.status in ("PENDING", "DISPATCHED"), live.lost_count, live.retry_count) == (True, 0, 0)
        assert "handed_back" in watch.moves(job)
    successor = fleet.worker("grace", 2)
    probe.gate(gate).touch()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 2}
    assert effects.count("grace") == 4
    assert successor.stop() == 0


# ---- schedulers --------------------------------------------------------------------------------------------------------------


def test_a_killed_schedulers_standby_dispatches(fleet: Fleet) -> None:
    leader = fleet.members[0]
    standby = fleet.scheduler()
    term = Lease.objects.get(name="scheduler").term
    leader.kill()
    killed = time.monotonic()

    result = probe.note.delay("standby")
    watch.ended(result)
    took = time.monotonic() - killed

    print(f"\nscheduler killed: the standby had a job run after {took:.2f} s")
    assert took < 2 + SLACK
    assert Lease.objects.get(name="scheduler").term == term + 1
    assert standby.running


def test_a_frozen_leader_is_replaced_and_does_no_harm_when_it_thaws(fleet: Fleet) -> None:
    leader = fleet.members[-1]
    standby = fleet.scheduler()
    term = Lease.objects.get(name="scheduler").term
    leader.freeze()
    frozen = time.monotonic()
    try:
        jobs = [probe.note.delay("frozen leader") for _ in range(20)]
        assert watch.all_ended(jobs) == {"SUCCEEDED": 20}
        print(f"\nscheduler frozen: the standby had 20 jobs run after {time.monotonic() - frozen:.2f} s")
    finally:
        leader.thaw()
    jobs += [probe.note.delay("frozen leader") for _ in range(100)]

    assert watch.all_ended(jobs) == {"SUCCEEDED": 120}
    assert effects.count("frozen leader") == 120
    assert Lease.objects.get(name="scheduler").term == term + 1
    assert leader.stop() == 0, leader.tail()
    assert standby.running


def test_a_leader_told_to_stop_hands_over_at_once(fleet: Fleet) -> None:
    leader = fleet.members[-1]
    standby = fleet.scheduler()

    assert leader.stop() == 0
    stopped = time.monotonic()
    watch.ended(probe.note.delay("handed over"))

    took = time.monotonic() - stopped
    print(f"\nscheduler stopped: its standby had a job run after {took:.2f} s")
    assert took < 2 + SLACK
    assert standby.running


def test_a_running_job_that_is_revoked_with_terminate_is_killed_and_does_not_run_again(fleet: Fleet, gate: str) -> None:
    member = fleet.worker("revoked", 1)
    job = probe.hold.apply_async(("terminated", gate), queue="revoked")
    watch.comes_to(Status.RUNNING, job)

    job.revoke(terminate=True)
    after = probe.note.apply_async(("after the terminated",), queue="revoked")

    # Its slot is free again only when its child is dead: the gate is still shut.
    assert watch.ended(after, dump=member.tail).outcome == "SUCCEEDED"
    assert (watch.ended(job).outcome, job.state, effects.count("terminated")) == ("CANCELLED", "REVOKED", 1)
    assert member.stop() == 0


def test_a_worker_told_to_quit_hands_back_what_runs_at_once(fleet: Fleet, gate: str) -> None:
    member = fleet.worker("cold", 2)
    jobs = [probe.hold_without_policy.apply_async(("cold", gate), queue="cold") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *jobs)

    member.send(signal.SIGQUIT)
    member.wait(30)
    successor = fleet.worker("cold", 2)
    wait_until(lambda: all(_runs_again(job, 2)() for job in jobs), what="they run again", dump=fleet.logs)
    probe.gate(gate).touch()

    assert watch.all_ended(jobs) == {"SUCCEEDED": 2}
    assert [watch.job(job).lost_count for job in jobs] == [0, 0]
    assert successor.stop() == 0
