"""The broker is disposable: wiped, refused, silent or frozen, no job is lost and none runs twice because of it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from celeriac.models import Job
from celeriac.states import Status
from tasks.demo.ports import Reserved
from tests.support import effects, probe, watch
from tests.support.blackhole import black_hole
from tests.support.fleet import Fleet
from tests.support.product import Product
from tests.support.waiting import wait_until

CALLS = 1000
Open = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """Slots enough for a few hundred jobs to be on their way."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 4)


def _each_ran_once(ids: list[str]) -> bool:
    ran = effects.by_job()
    return all(ran[each] == 1 for each in ids)


def _storm(fleet: Fleet, word: str, broker: str | None, count: int = CALLS) -> dict[str, Any]:
    """What a process saw that enqueued from 16 threads, with the broker at that URL."""
    env = {} if broker is None else {"CELERY_BROKER_URL": broker}
    args = ["-m", "tests.support.enqueuer", "storm", "--count", str(count), "--word", word]
    member = fleet.python("storm", args, env=env)
    assert member.wait(120) == 0, member.tail()
    said: dict[str, Any] = json.loads(member.text().splitlines()[-1])
    print(
        f"\n{word}: {count / said['seconds']:.0f} calls/s, p50 {said['p50'] * 1000:.1f} ms, p99 {said['p99'] * 1000:.1f} ms, "
        f"connects {said['connects']}"
    )
    return said


def test_a_broker_that_is_wiped_ten_times_loses_nothing_and_doubles_nothing(product: Product) -> None:
    jobs = [probe.note.delay("wiped") for _ in range(400)]
    with product.redis() as broker:
        for turn in range(1, 11):
            wait_until(lambda turn=turn: effects.count("wiped") >= 35 * turn, what=f"it goes on after {turn - 1} wipes")
            broker.flushall()

    assert watch.all_ended(jobs) == {"SUCCEEDED": 400}
    assert _each_ran_once([job.id for job in jobs])


@pytest.mark.slow
@pytest.mark.parametrize("broker", ["refused", "black hole"])
def test_enqueueing_does_not_know_whether_there_is_a_broker(fleet: Fleet, product: Product, broker: str) -> None:
    if broker == "refused":
        reserved = Reserved()
        number = reserved.number
        reserved.release()
        seen = _storm(fleet, broker, f"redis://127.0.0.1:{number}/0")
    else:
        with black_hole() as address:
            seen = _storm(fleet, broker, f"redis://{address}/0")

    assert seen["errors"] == []
    # The bell alone speaks to the broker, from its own thread.
    assert set(seen["connects"]) <= {"celeriac-bell"}
    usual = _storm(fleet, f"{broker}: usual", None)
    print(f"p99 against the broker up: {seen['p99'] / usual['p99']:.2f}x")
    # Whoever waited for a broker would have waited for a second at least. The ratio itself is the bench's, from five pairs.
    assert seen["p99"] < 2 * usual["p99"] + 0.25
    assert watch.all_ended(seen["ids"] + usual["ids"], timeout=180) == {"SUCCEEDED": 2 * CALLS}
    assert _each_ran_once(seen["ids"] + usual["ids"])


def test_jobs_wait_in_the_ledger_while_the_broker_is_down_and_all_run_when_it_is_back(
    fleet: Fleet, product: Product, open_gate: Open
) -> None:
    gate = uuid.uuid4().hex
    running = probe.hold.delay("through the outage", gate)
    watch.comes_to(Status.RUNNING, running)
    product.services.stop_redis(immediate=True)
    try:
        jobs = [probe.note.delay("down") for _ in range(200)]
        # What runs needs no broker to end.
        open_gate(gate)
        assert watch.ended(running).outcome == "SUCCEEDED"
        scheduler = fleet.members[0]
        wait_until(
            lambda: "scheduler.broker_away" in scheduler.text(), what="the scheduler says so", dump=scheduler.tail
        )
        assert Job.objects.unfinished().count() >= 190
    finally:
        product.services.start_redis()
    back = time.monotonic()

    assert watch.all_ended([running, *jobs], dump=fleet.logs) == {"SUCCEEDED": 201}
    print(f"\nbroker back: 200 jobs had run {time.monotonic() - back:.1f} s later")
    assert _each_ran_once([job.id for job in [running, *jobs]])


def test_a_broker_that_freezes_for_five_seconds_costs_nothing_but_time(fleet: Fleet, product: Product) -> None:
    jobs = [probe.note.delay("frozen") for _ in range(200)]
    wait_until(lambda: effects.count("frozen") >= 20, what="the jobs are being worked off")
    product.services.pause_redis()
    frozen = time.monotonic()
    try:
        jobs += [probe.note.delay("frozen") for _ in range(100)]
        wait_until(lambda: time.monotonic() - frozen > 5, what="five seconds")
    finally:
        product.services.resume_redis()
    back = time.monotonic()

    assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 300}
    print(f"\nbroker thawed: 300 jobs had run {time.monotonic() - back:.1f} s later")
    assert _each_ran_once([job.id for job in jobs])
