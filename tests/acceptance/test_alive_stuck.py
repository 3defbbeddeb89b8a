"""Runs that nothing can stop: past their deadline in pools of threads, of greenlets, and of one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connections

from celeriac.models import Worker
from celeriac.states import Status
from tests.support import effects, leader, probe, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.processes import Member
from tests.support.product import Product
from tests.support.waiting import wait_until

POOLS = ["threads", "gevent", "solo"]
SETTLE_IN = 1.0  # seconds; the default is 5
AWAY = 6.0  # seconds: longer than the limit and the grace of the job concerned
Open = Callable[[str], None]


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """The shortest grace there is: tests wait for deadlines."""
    return {"CELERIAC_DEADLINE_GRACE": "1", "CELERIAC_SETTLE_IN": str(SETTLE_IN)}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, whose evidence is old enough for verdicts."""
    fleet.scheduler(wait=False)


@pytest.fixture(scope="module")
def of_pool(fleet: Fleet, members: None) -> dict[str, Member]:
    """One worker of each pool, started together; each serves the queue called as its pool."""
    # Neighbours of a stuck run are given the grace of any stop.
    env = {"CELERIAC_STOP_GRACE": "1"}
    found = {pool: fleet.worker(pool, 2, pool=pool, extra=QUICKLY, env=env, wait=False) for pool in POOLS}
    for member in found.values():
        fleet.wait_for_worker(member)
    leader.wait_until_it_judges(SETTLE_IN)
    return found


@pytest.mark.parametrize("pool", POOLS)
def test_past_its_deadline_a_run_is_held_for_review_and_its_late_outcome_is_accepted(
    of_pool: dict[str, Member], gate: str, pool: str
) -> None:
    member, word = of_pool[pool], f"review {pool}"
    lives = len(watch.incarnations(member.pid))
    stuck = probe.stick_for_review.apply_async((word, gate), queue=pool)
    begun = time.monotonic()
    watch.comes_to(Status.PARKED, stuck)
    print(f"\n{pool}: held for review {time.monotonic() - begun:.1f} s after it was asked for (limit 0.5 s, grace 1 s)")

    held = watch.live(stuck)
    assert held is not None
    assert (held.parked_reason, held.lost_count, held.retry_count) == ("review", 0, 0)
    if pool != "solo":  # one slot, and the old run is still in it
        beside = [probe.note.apply_async((f"{word} beside",), queue=pool) for _ in range(5)]
        assert watch.all_ended(beside, dump=member.tail) == {"SUCCEEDED": 5}
    probe.gate(gate).touch()

    assert watch.ended(stuck).outcome == "SUCCEEDED"
    assert (watch.job(stuck).attempt, effects.count(word)) == (1, 1)
    assert "late_succeeded" in watch.moves(stuck)
    assert len(watch.incarnations(member.pid)) == lives


def test_who_takes_a_stuck_job_out_of_review_takes_it_from_the_old_run(
    fleet: Fleet, of_pool: dict[str, Member], gate: str
) -> None:
    member = of_pool["threads"]
    stuck = probe.stick_for_review.apply_async(("released", gate), queue="threads")
    watch.comes_to(Status.PARKED, stuck)

    release = fleet.manage("release", ["celeriac", "release", stuck.id, "--reason", "the old run is done for"])
    assert release.wait(30) == 0, release.tail()
    wait_until(lambda: effects.count("released") == 2, what="it runs again", dump=lambda: watch.story(stuck))
    probe.gate(gate).touch()

    job = watch.ended(stuck)
    assert (job.outcome, job.attempt) == ("SUCCEEDED", 2)
    wait_until(
        lambda: "outcome_refused" in watch.moves(stuck),
        what="the old run's outcome is refused",
        dump=lambda: f"{watch.story(stuck)}\n{member.tail()}",
    )
    wait_until(lambda: watch.incarnations(member.pid)[-1].refused == 1, what="it is counted", dump=member.tail)


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_where_the_policy_says_so_the_worker_is_restarted_for_a_stuck_run(
    of_pool: dict[str, Member], gate: str, pool: str
) -> None:
    member, word = of_pool[pool], f"restart {pool}"
    lives = len(watch.incarnations(member.pid))
    neighbour = None
    if pool != "solo":
        neighbour = probe.hold.apply_async((f"{word} neighbour", gate), queue=pool)
        watch.comes_to(Status.RUNNING, neighbour)
    stuck = probe.stick_and_restart.apply_async((word, gate), queue=pool)
    begun = time.monotonic()

    wait_until(
        lambda: [w.state == Worker.State.ALIVE for w in watch.incarnations(member.pid)[lives - 1 :]] == [False, True],
        what="the same process is a new incarnation",
        dump=lambda: f"{watch.story(stuck)}\n{member.tail()}",
    )
    print(f"\n{pool}: restarted {time.monotonic() - begun:.1f} s after the job was asked for (limit 0.5 s, grace 1 s)")
    probe.gate(gate).touch()

    job = watch.ended(stuck, dump=member.tail)
    assert (job.outcome, job.lost_count) == ("SUCCEEDED", 0)
    assert job.attempt > 1
    if neighbour is not None:
        other = watch.ended(neighbour, dump=member.tail)
        assert (other.outcome, other.attempt, other.lost_count, other.retry_count) == ("SUCCEEDED", 2, 0, 0)


@pytest.mark.slow
def test_a_deadline_is_extended_by_the_time_that_the_database_was_away(
    of_pool: dict[str, Member], product: Product, paper: Path, open_gate: Open
) -> None:
    gate = uuid.uuid4().hex
    job = probe.outlast.apply_async(("outage", gate), queue="threads")
    watch.comes_to(Status.RUNNING, job)
    connections.close_all()
    product.services.stop_postgres()
    stopped = time.monotonic()
    try:
        wait_until(lambda: time.monotonic() - stopped > AWAY, every=0.1, what=f"{AWAY} s")
    finally:
        product.services.start_postgres()

    # The deadline as it was set has long passed; whoever judged by that would have done so by now.
    leader.wait_until_it_judges(SETTLE_IN)
    judging = time.monotonic()
    wait_until(lambda: time.monotonic() - judging > 1, every=0.1, what="two looks")
    open_gate(gate)
    assert watch.ended(job).outcome == "SUCCEEDED"
    assert (watch.job(job).attempt, list(watch.moves(job))) == (1, []), watch.story(job)
    assert effects.on_paper(paper)[job.id] == 1


@pytest.mark.parametrize("pool", POOLS)
def test_a_slot_that_gets_free_is_taken_at_once_in_every_pool(of_pool: dict[str, Member], pool: str) -> None:
    """A green worker's poll that began with all slots taken would ask for no message for two seconds: 30 jobs, half a minute."""
    begun = time.monotonic()
    jobs = [probe.note.apply_async((f"soon {pool}",), queue=pool) for _ in range(30)]
    assert watch.all_ended(jobs) == {"SUCCEEDED": 30}
    print(f"\n{pool}: 30 short jobs in {time.monotonic() - begun:.1f} s")
    assert time.monotonic() - begun < 15
