"""When: the database's clock decides, whatever the hosts of callers, workers and schedulers take for now."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from celeriac.models import Job
from tests.support import callee, effects, watch
from tests.support.fleet import ROOT, Fleet

#: Seconds by which hosts are wrong. A clock that decided would show as an error of this size.
WRONG = 90.0
#: What is due after a second must be there long before a wrong clock would have it.
FAR = WRONG / 2


def wrong_by(seconds: float) -> dict[str, str]:
    """The environment of a process on a host whose clock is wrong."""
    return {"WRONG_BY": str(seconds), "PYTHONPATH": f"{ROOT / 'tests/support/wrong_clock'}:{ROOT / 'platform'}:{ROOT}"}


@pytest.fixture(scope="module")
def app_name() -> str:
    """The app whose tasks retry by countdown and by moment."""
    return "tests.support.callee"


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A worker whose host is ahead, one whose host is behind, and a leader that is ahead."""
    fleet.scheduler(env=wrong_by(WRONG), wait=False)
    workers = [
        fleet.worker("side", 1, env=wrong_by(WRONG), wait=False),
        fleet.worker("videos", 1, env=wrong_by(-WRONG), wait=False),
    ]
    for member in workers:
        fleet.wait_for_worker(member)


on_each_worker = pytest.mark.parametrize("queue", ["side", "videos"], ids=["worker-ahead", "worker-behind"])


def call(fleet: Fleet, wrong: float, *calls: dict[str, Any]) -> list[str]:
    """Ids of what a process on a host that is *wrong* has called."""
    member = fleet.python("caller", ["-m", "tests.support.caller", json.dumps(calls)], env=wrong_by(wrong))
    assert member.wait(60) == 0, member.tail()
    ids: list[str] = json.loads(member.text().splitlines()[-1])
    return ids


def started_after(job: Job) -> float:
    """Seconds from acceptance to the start of the run that ended it."""
    assert job.started_at is not None
    return (job.started_at - job.created_at).total_seconds()


@on_each_worker
def test_these_hosts_are_wrong(queue: str) -> None:
    off = (callee.what_time.apply_async(queue=queue).get(timeout=60) - effects.now()).total_seconds()

    assert off > FAR if queue == "side" else off < -FAR


@pytest.mark.parametrize("wrong", [WRONG, -WRONG], ids=["caller-ahead", "caller-behind"])
def test_countdowns_and_expiries_of_a_caller_whose_clock_is_wrong_count_by_the_databases(
    fleet: Fleet, wrong: float
) -> None:
    note = "tests.support.callee.note"
    soon, in_time, expired = call(
        fleet,
        wrong,
        {"task": note, "args": ["soon"], "options": {"queue": "side", "countdown": 1.0}},
        {"task": note, "args": ["in time"], "options": {"queue": "videos", "expires": FAR}},
        {"task": note, "args": ["expired"], "options": {"queue": "side", "countdown": 600, "expires": 0.5}},
    )

    assert 1.0 <= started_after(watch.ended(soon)) < FAR
    assert watch.ended(in_time).outcome == "SUCCEEDED"
    gone = watch.ended(expired)
    assert (gone.outcome, gone.attempt) == ("CANCELLED", 0)
    assert gone.ended_at is not None
    assert 0.5 <= (gone.ended_at - gone.created_at).total_seconds() < FAR


@on_each_worker
def test_a_moment_comes_when_the_databases_clock_says_so(queue: str) -> None:
    eta = effects.now() + timedelta(seconds=1)
    result = callee.note.apply_async(("a moment",), queue=queue, eta=eta, expires=eta + timedelta(seconds=FAR))

    job = watch.ended(result)

    assert (job.outcome, job.attempt) == ("SUCCEEDED", 1)
    assert job.started_at is not None
    assert 0 <= (job.started_at - eta).total_seconds() < FAR


@on_each_worker
def test_a_moment_that_has_passed_by_the_databases_clock_has_expired(queue: str) -> None:
    result = callee.note.apply_async(
        ("too late",), queue=queue, countdown=600, expires=effects.now() + timedelta(seconds=0.5)
    )

    assert watch.ended(result).outcome == "CANCELLED"
    assert effects.count("too late") == 0


@on_each_worker
@pytest.mark.parametrize("task", [callee.again_in, callee.again_at], ids=["countdown", "eta"])
def test_a_retry_of_a_worker_whose_clock_is_wrong_comes_when_the_databases_says_so(task: Any, queue: str) -> None:
    word = f"{task.name} on {queue}"
    result = task.apply_async((word, 1.0), queue=queue, expires=FAR)

    job = watch.ended(result)

    assert (job.outcome, job.attempt) == ("SUCCEEDED", 2)
    assert 1.0 <= effects.seconds_between(word, word) < FAR


@on_each_worker
def test_nobody_takes_a_worker_whose_clock_is_wrong_for_a_dead_one(queue: str, gate: str, open_gate: Any) -> None:
    result = callee.hold.apply_async((f"held on {queue}", gate), queue=queue)
    witness = callee.note.apply_async(("a while",), queue="videos" if queue == "side" else "side", countdown=2)
    assert watch.ended(witness).outcome == "SUCCEEDED"

    open_gate(gate)

    job = watch.ended(result)
    assert (job.outcome, job.attempt, job.lost_count) == ("SUCCEEDED", 1, 0)
    assert job.ended_at is not None
    assert 0 < (job.ended_at - job.created_at).total_seconds() < FAR
