"""The database's sessions are cut, it restarts, it stands still: nobody is judged for that, and nothing is run again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connections

from celeriac.models import Worker
from celeriac.states import Status
from tests.support import databases, effects, leader, probe, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.product import Product
from tests.support.waiting import wait_until

SLOTS = 3
STALL_AFTER = 4.0  # seconds; the default is 15
SETTLE_IN = 3.0  # seconds; the default is 5
STILL = 6.0  # seconds: longer than any limit there is for a beat
Open = Callable[[str], None]


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """A limit that is shorter than what is done to the database, and evidence that is old sooner than by default."""
    return {"CELERIAC_STALL_AFTER": str(STALL_AFTER), "CELERIAC_SETTLE_IN": str(SETTLE_IN)}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, a standby and two trees."""
    fleet.scheduler(wait=False)
    fleet.scheduler(wait=False)
    fleet.workers(("default", SLOTS), ("default", SLOTS), extra=QUICKLY)


@pytest.fixture
def everywhere(fleet: Fleet, open_gate: Open) -> Iterator[list[object]]:
    """Jobs that fill both trees when the fault comes; afterwards each must have run once, where it was."""
    leader.wait_until_it_judges(SETTLE_IN)
    gate = uuid.uuid4().hex
    jobs = [probe.hold_on_paper.delay("everywhere", gate) for _ in range(2 * SLOTS)]
    watch.comes_to(Status.RUNNING, *jobs)
    before = {job.id: watch.live(job).worker for job in jobs}  # type: ignore[union-attr]
    assert len(set(before.values())) == 2
    alive = set(Worker.objects.alive().values_list("pk", flat=True))
    yield jobs
    # Verdicts would fall when the evidence is old enough.
    leader.wait_until_it_judges(SETTLE_IN)
    assert watch.runs_as(1, *jobs)(), "\n".join(watch.story(job) for job in jobs)
    open_gate(gate)
    assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 2 * SLOTS}
    assert {job.id: watch.job(job).worker for job in jobs} == before
    assert [(watch.job(job).attempt, watch.job(job).lost_count) for job in jobs] == [(1, 0)] * len(jobs)
    assert set(Worker.objects.alive().values_list("pk", flat=True)) == alive
    assert not Worker.objects.filter(state=Worker.State.GONE).exists()
    assert all(member.running for member in fleet.members), fleet.logs()


def _twice(jobs: list[object], paper: Path) -> list[object]:
    ran = effects.on_paper(paper)
    return [job for job in jobs if ran[job.id] > 1]  # type: ignore[attr-defined]


def test_sessions_that_are_ended_under_running_jobs_cost_nothing(everywhere: list[object], paper: Path) -> None:
    assert databases.cut_sessions() >= 2 * SLOTS
    # A second time, when all are back: beats, children and schedulers.
    _wait_for_beats()
    databases.cut_sessions()
    print(f"\nsessions ended: all beat again after {_wait_for_beats():.2f} s")
    assert _twice(everywhere, paper) == []


def test_sessions_that_are_ended_while_nothing_runs_cost_nothing(fleet: Fleet) -> None:
    for _ in range(3):
        databases.cut_sessions()
        jobs = [probe.note.delay("after a quiet night") for _ in range(10)]
        assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 10}
        assert [watch.job(job).attempt for job in jobs] == [1] * 10
    assert effects.count("after a quiet night") == 30
    assert all(member.running for member in fleet.members), fleet.logs()


@pytest.mark.slow
def test_a_restart_of_the_database_under_two_trees_costs_nothing(
    everywhere: list[object], product: Product, paper: Path
) -> None:
    connections.close_all()
    product.services.restart_postgres()
    print(f"\ndatabase restarted: all beat again {_wait_for_beats():.2f} s after it was back")
    assert _twice(everywhere, paper) == []


@pytest.mark.slow
def test_a_database_that_stands_still_for_longer_than_any_limit_costs_nothing(
    everywhere: list[object], product: Product, paper: Path
) -> None:
    product.services.pause_postgres()
    paused = time.monotonic()
    try:
        wait_until(lambda: time.monotonic() - paused > STILL, every=0.1, what=f"{STILL} s")
    finally:
        product.services.resume_postgres()
    print(f"\ndatabase stood still for {STILL:g} s: all beat again {_wait_for_beats():.2f} s later")
    assert _twice(everywhere, paper) == []


def _wait_for_beats() -> float:
    """Return when every incarnation has beaten after now; says how many seconds that took."""
    asked = time.monotonic()
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    wait_until(lambda: not Worker.objects.alive().filter(beat_at__lte=now).exists(), what="all beat again")
    return time.monotonic() - asked
