"""The database goes away while jobs end: each outcome is there once afterwards, and nothing is run again for it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connections

from celeriac.models import Worker
from celeriac.states import Status
from tests.support import databases, effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.product import Product
from tests.support.waiting import wait_until

SLOTS = 8
AWAY = 20.0  # seconds
Open = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, a standby and one worker."""
    fleet.scheduler(wait=False)
    fleet.scheduler(wait=False)
    fleet.worker("default", SLOTS)


def _spooled(product: Product) -> int:
    folder = Path(product.env["CELERIAC_SPOOL_DIR"])
    return sum(len(path.read_bytes().splitlines()) for path in folder.glob("*.jsonl")) if folder.exists() else 0


@pytest.mark.slow
def test_jobs_that_end_while_the_database_is_away_are_settled_once_when_it_is_back(
    fleet: Fleet, product: Product, paper: Path, open_gate: Open
) -> None:
    gate = uuid.uuid4().hex
    ending = [probe.hold_on_paper.delay("ends meanwhile", gate) for _ in range(SLOTS)]
    watch.comes_to(Status.RUNNING, *ending)
    incarnations = set(Worker.objects.values_list("pk", flat=True))

    connections.close_all()
    product.services.stop_postgres(immediate=True)
    stopped = time.monotonic()
    try:
        open_gate(gate)
        wait_until(lambda: _spooled(product) == SLOTS, what="all outcomes wait in the spool", dump=fleet.logs)
        assert len(effects.on_paper(paper)) == SLOTS
        wait_until(lambda: time.monotonic() - stopped > AWAY, every=0.1, what="20 s")
        assert all(member.running for member in fleet.members), fleet.logs()
    finally:
        product.services.start_postgres()
    back = time.monotonic()

    assert watch.all_ended(ending, dump=fleet.logs) == {"SUCCEEDED": SLOTS}
    print(
        f"\ndatabase back after {back - stopped:.0f} s: {SLOTS} outcomes were settled {time.monotonic() - back:.1f} s later"
    )
    assert [watch.job(job).attempt for job in ending] == [1] * SLOTS
    assert [effects.on_paper(paper)[job.id] for job in ending] == [1] * SLOTS
    wait_until(lambda: _spooled(product) == 0, what="the spool is empty")
    # Beats stopped and locks were free: nobody was judged for that.
    assert set(Worker.objects.alive().values_list("pk", flat=True)) == incarnations


@pytest.mark.slow
def test_the_database_restarts_under_two_hundred_short_jobs_and_none_runs_twice(
    fleet: Fleet, product: Product, paper: Path
) -> None:
    jobs = [probe.pause_on_paper.delay("short", 0.05) for _ in range(200)]
    wait_until(lambda: len(effects.on_paper(paper)) >= SLOTS + 40, what="they are being worked off")
    connections.close_all()
    product.services.stop_postgres()
    stopped = time.monotonic()
    try:
        wait_until(lambda: time.monotonic() - stopped > 4, every=0.1, what="4 s")
    finally:
        product.services.start_postgres()
    back = time.monotonic()

    assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 200}
    print(f"\ndatabase restarted: 200 jobs had run {time.monotonic() - back:.1f} s later")
    ran = effects.on_paper(paper)
    assert [job.id for job in jobs if ran[job.id] != 1] == []
    assert {watch.job(job).attempt for job in jobs} == {1}
    wait_until(lambda: _spooled(product) == 0, what="the spool is empty")
    assert [watch.job(job).lost_count for job in jobs] == [0] * 200


def test_sessions_that_are_cut_off_cost_nothing(fleet: Fleet, product: Product, paper: Path) -> None:
    jobs = [probe.pause_on_paper.delay("cut off", 0.02) for _ in range(150)]
    for turn in range(1, 6):
        wait_until(
            lambda turn=turn: sum(effects.on_paper(paper)[job.id] for job in jobs) >= 20 * turn,
            what=f"it goes on after {turn - 1} cuts",
            dump=fleet.logs,
        )
        databases.cut_sessions()

    assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 150}
    ran = effects.on_paper(paper)
    assert [job.id for job in jobs if ran[job.id] != 1] == []
    assert all(member.running for member in fleet.members)
    assert Worker.objects.filter(state="gone").count() == 0


def test_a_worker_that_ends_with_a_full_spool_leaves_it_to_the_next(
    fleet: Fleet, product: Product, paper: Path, open_gate: Open
) -> None:
    gate = uuid.uuid4().hex
    member = fleet.worker("heirs", 2)
    jobs = [probe.hold_on_paper.apply_async(("inherited", gate), queue="heirs") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *jobs)
    connections.close_all()
    product.services.stop_postgres()
    try:
        open_gate(gate)
        wait_until(lambda: _spooled(product) == 2, what="both outcomes wait in the spool", dump=fleet.logs)
        member.kill_tree()
    finally:
        product.services.start_postgres()

    # Any worker of this host will do: this one serves another queue.
    watch.all_ended(jobs, dump=lambda: fleet.logs() + str(os.listdir(product.env["CELERIAC_SPOOL_DIR"])))
    assert [(watch.job(job).outcome, effects.on_paper(paper)[job.id]) for job in jobs] == [("SUCCEEDED", 1)] * 2
