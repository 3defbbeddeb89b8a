"""Limits hold for the whole fleet, whichever worker runs a job, and hold up nobody else."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable

import pytest

from celeriac.models import Live
from celeriac.states import Status
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

LIMITS = {"CELERIAC_QUEUES": json.dumps({"narrow": {"concurrency": 2}})}
LIMITS["CELERIAC_TYPES"] = json.dumps({"tests.support.probe.hold_without_policy": {"concurrency": 3}})
RATE = 10.0  # a second


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader that knows the limits, and two workers."""
    fleet.scheduler(env=LIMITS)
    fleet.workers(("narrow,wide", 4), ("narrow,wide", 4))


def _running(queue: str) -> int:
    return Live.objects.filter(queue=queue, status=Status.RUNNING).count()


def test_of_a_limited_queue_no_more_run_at_once_on_all_workers_together(open_gate: Callable[[str], None]) -> None:
    gate = uuid.uuid4().hex
    jobs = [probe.hold.apply_async(("narrow", gate), queue="narrow") for _ in range(6)]
    wait_until(lambda: _running("narrow") == 2, what="two run")
    other = probe.note.apply_async(("beside the narrow",), queue="wide")
    watch.ended(other)  # many passes of the scheduler later
    assert _running("narrow") == 2
    assert Live.objects.filter(queue="narrow", status=Status.DISPATCHED).count() == 0

    open_gate(gate)
    assert watch.all_ended(jobs) == {"SUCCEEDED": 6}


def test_of_a_limited_type_no_more_run_at_once_and_what_stands_behind_them_goes_on(
    open_gate: Callable[[str], None],
) -> None:
    gate = uuid.uuid4().hex
    jobs = [probe.hold_without_policy.apply_async(("typed", gate), queue="wide") for _ in range(8)]
    wait_until(lambda: _running("wide") == 3, what="three run")
    behind = [probe.note.apply_async(("behind the typed",), queue="wide") for _ in range(10)]

    assert watch.all_ended(behind) == {"SUCCEEDED": 10}
    assert _running("wide") == 3
    open_gate(gate)
    assert watch.all_ended(jobs) == {"SUCCEEDED": 8}


def test_a_rate_set_at_run_time_holds_for_all_workers_together_until_it_is_taken_away() -> None:
    probe.app.control.rate_limit("tests.support.probe.note", f"{RATE:g}/s")
    time.sleep(0.5)  # the leader reads it several times a second
    jobs = [probe.note.apply_async((f"rated {n}",), queue="wide") for n in range(30)]
    other = [probe.add.apply_async((1, n), queue="wide") for n in range(20)]

    assert watch.all_ended(other) == {"SUCCEEDED": 20}
    assert sum(word.startswith("rated") for word in effects.words()) < 30, "the others waited for the rated ones"
    assert watch.all_ended(jobs) == {"SUCCEEDED": 30}
    took = effects.seconds_between("rated 0", "rated 29")
    print(f"\n30 jobs at {RATE:g} a second: {took:.2f} s")
    assert took > (30 - RATE * 0.25 - 1) / RATE * 0.9

    probe.app.control.rate_limit("tests.support.probe.note", 0)
    with pytest.raises(ValueError, match="is no rate"):
        probe.app.control.rate_limit("tests.support.probe.note", "often")
