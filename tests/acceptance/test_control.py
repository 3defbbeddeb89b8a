"""Control and results: what Celery's own commands do to jobs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest
from celery.exceptions import TimeoutError as CeleryTimeout

from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader and a worker."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 2)


def test_purge_cancels_what_waits_and_leaves_what_runs(open_gate: Callable[[str], None]) -> None:
    gate = uuid.uuid4().hex
    running = [probe.hold.delay("purged not", gate) for _ in range(2)]
    wait_until(lambda: all(r.state == "STARTED" for r in running), what="both run")
    waiting = [probe.note.delay("purged") for _ in range(5)] + [probe.note.apply_async(("purged",), countdown=3600)]

    assert probe.app.control.purge() == 6

    assert {r.state for r in waiting} == {"REVOKED"}
    open_gate(gate)
    assert watch.all_ended(running) == {"SUCCEEDED": 2}
    assert effects.count("purged") == 0


def test_whoever_waits_for_a_short_job_does_not_wait_for_half_a_second() -> None:
    probe.add.delay(1, 1).get(timeout=30)
    took = []
    for n in range(10):
        begun = time.monotonic()
        probe.add.delay(n, 1).get(timeout=30)
        took.append(time.monotonic() - begun)
    print(f"\ndelay().get(): median {sorted(took)[5] * 1000:.0f} ms")
    assert sorted(took)[5] < 0.4, "Celery's own way looks every half second"


def test_waiting_ends_when_its_time_is_over() -> None:
    with pytest.raises(CeleryTimeout):
        probe.note.apply_async(("never waited for",), countdown=3600).get(timeout=0.2)
    assert probe.app.control.purge() == 1


def test_inspect_shows_what_runs(open_gate: Callable[[str], None]) -> None:
    gate = uuid.uuid4().hex
    result = probe.hold.delay("inspected", gate)
    wait_until(lambda: result.state == "STARTED", what="it runs")

    active = wait_until(lambda: probe.app.control.inspect(timeout=3).active(), what="a worker answers")
    (shown,) = next(iter(active.values()))
    assert (shown["id"], shown["name"]) == (result.id, "tests.support.probe.hold")
    asked = probe.app.control.inspect(timeout=3).query_task(result.id)
    assert next(iter(asked.values()))[result.id][0] == "active"
    open_gate(gate)
    assert watch.ended(result).outcome == "SUCCEEDED"
