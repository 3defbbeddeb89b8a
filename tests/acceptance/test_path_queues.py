"""Each type of job has its queue and its own workers: what hangs in one is nothing to the others."""

from __future__ import annotations

import statistics
import uuid
from collections.abc import Callable

import pytest

from celeriac.models import Control, Job
from celeriac.states import Status
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

ROUND = 120
Open = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A worker a queue, and two one-slot workers that share one."""
    fleet.scheduler(wait=False)
    fleet.workers(("sms", 2), ("data_sync", 2), ("shared", 1), ("shared", 1))


def _drain(word: str) -> float:
    """Seconds from the first to the last effect of a round on data_sync's queue."""
    jobs = [probe.note.apply_async((word,), queue="data_sync") for _ in range(ROUND)]
    assert watch.all_ended(jobs) == {"SUCCEEDED": ROUND}
    return effects.seconds_between(word, word)


def test_while_sms_hangs_data_sync_drains_at_its_usual_rate(open_gate: Open) -> None:
    usual: list[float] = []
    meanwhile: list[float] = []
    stuck = []
    _drain("warm")
    for turn in range(3):
        usual.append(_drain(f"usual {turn}"))
        gate = uuid.uuid4().hex
        hanging = [probe.hold.apply_async(("sms", gate), queue="sms") for _ in range(20)]
        watch.comes_to(Status.RUNNING, *hanging[:2])
        meanwhile.append(_drain(f"meanwhile {turn}"))
        # It did hang all the while: two in their slots, one in the broker at most, the rest in the ledger.
        assert [watch.job(each).status for each in hanging].count(Status.RUNNING) == 2
        open_gate(gate)
        stuck += hanging
    ratio = statistics.median(usual) / statistics.median(meanwhile)
    rates = [round(ROUND / seconds) for seconds in (*usual, *meanwhile)]
    print(f"\ndata_sync: {rates[:3]} jobs/s usually, {rates[3:]} while sms hangs (median of ratios {ratio:.2f})")
    assert ratio > 0.5
    assert watch.all_ended(stuck) == {"SUCCEEDED": 60}


def test_a_long_job_does_not_keep_short_ones_from_an_idle_worker(open_gate: Open) -> None:
    gate = uuid.uuid4().hex
    long = probe.hold.apply_async(("long", gate), queue="shared")
    shorts = [probe.note.apply_async(("short",), queue="shared") for _ in range(3)]

    assert watch.all_ended(shorts) == {"SUCCEEDED": 3}
    assert watch.job(long).status is Status.RUNNING
    open_gate(gate)
    assert watch.ended(long).outcome == "SUCCEEDED"


def test_a_queue_without_a_worker_keeps_its_jobs_until_one_comes(fleet: Fleet) -> None:
    jobs = [probe.note.apply_async(("nobody's",), queue="nobodys") for _ in range(5)]
    watch.comes_to(Status.DISPATCHED, jobs[0])

    member = fleet.worker("nobodys", 1)
    try:
        assert watch.all_ended(jobs) == {"SUCCEEDED": 5}
    finally:
        assert member.stop() == 0


@pytest.mark.parametrize(
    "switch",
    [("type", "tests.support.probe.note"), ("queue", "data_sync")],
    ids=["type", "queue"],
)
def test_switched_off_jobs_pile_up_and_switched_on_they_are_caught_up(fleet: Fleet, switch: tuple[str, str]) -> None:
    word = f"{switch[0]} switch"
    jobs = [probe.note.apply_async((word,), queue="data_sync") for _ in range(400)]
    wait_until(lambda: effects.count(word) >= 10, what="the jobs are being worked off")
    assert fleet.manage("switch", ["celeriac", "switch", *switch, "off", "--reason", "maintenance"]).wait(60) == 0
    off_at = Control.objects.get(key=f"consume:{':'.join(switch)}").changed_at

    def seconds_off() -> float:
        # A job that asks what time it is on the database's clock; the pile grows by it.
        jobs.append(probe.note.apply_async((word,), queue="data_sync"))
        return (watch.job(jobs[-1]).created_at - off_at).total_seconds()

    wait_until(lambda: seconds_off() > 4, every=0.1, what="twice as long as the switch may take")
    last = max((seconds for _, seconds in effects.since(off_at)), default=0.0)
    print(f"\n{switch[0]} switched off: the last job started {last:.3f} s after it")
    assert last <= 2.0
    assert Job.objects.unfinished().filter(queue="data_sync").count() > 50
    # Other types and queues go on.
    bystander = probe.add.apply_async((1, 1), queue="data_sync" if switch[0] == "type" else "sms")
    assert bystander.get(timeout=60) == 2

    assert fleet.manage("switch", ["celeriac", "switch", *switch, "on", "--reason", "done"]).wait(60) == 0
    assert watch.all_ended(jobs) == {"SUCCEEDED": len(jobs)}
    assert effects.count(word) == len(jobs)
