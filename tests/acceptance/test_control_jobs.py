"""Celery's remote control over jobs: revoke in every state, inspect, limits and queues at run time."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from celery import chain, group
from celery.exceptions import TaskRevokedError

from celeriac.states import Status
from tests.support import callee, effects, watch
from tests.support.fleet import Fleet
from tests.support.processes import Member
from tests.support.waiting import wait_until

Open = Callable[[str], None]
SLOTS = 2
control = callee.app.control


@pytest.fixture(scope="module")
def app_name() -> str:
    """The app with queues of its own."""
    return "tests.support.callee"


@pytest.fixture(scope="module", autouse=True)
def worker(fleet: Fleet) -> Member:
    """A leader and a worker."""
    fleet.scheduler(wait=False)
    return fleet.worker("default", SLOTS)


def answer(asked: Callable[[Any], Any]) -> Any:
    """What the one worker answers to ``inspect``."""
    found = wait_until(lambda: asked(control.inspect(timeout=5, limit=1)), what="the worker answers")
    (said,) = found.values()
    return said


# ---- revoke ----------------------------------------------------------------------------------------------------------------


def test_what_is_revoked_while_no_worker_is_up_never_runs_when_one_comes(fleet: Fleet) -> None:
    revoked = [callee.note.apply_async(("never",), queue="later") for _ in range(3)]
    kept = callee.note.apply_async(("kept",), queue="later")
    for result in revoked[:2]:
        result.revoke()
    control.revoke(revoked[2].id)
    assert [result.state for result in revoked] == ["REVOKED"] * 3

    member = fleet.worker("later", 1)

    assert kept.get(timeout=60) == "kept"
    assert effects.count("never") == 0
    member.stop()


def test_several_are_revoked_in_one_call() -> None:
    results = [callee.note.apply_async(("several",), countdown=600) for _ in range(5)]

    control.revoke([result.id for result in results])

    assert watch.all_ended(results) == {"CANCELLED": 5}


def test_a_running_job_that_is_revoked_goes_on_and_its_next_retry_too(gate: str, open_gate: Open) -> None:
    result = callee.hold.delay("goes on", gate)
    watch.comes_to(Status.RUNNING, result)

    result.revoke()
    open_gate(gate)

    assert result.get(timeout=60) == "goes on"


def test_a_job_that_waits_for_its_retry_is_revoked() -> None:
    result = callee.again_in.delay("no second time", 600)
    watch.comes_to(Status.RETRY, result)

    result.revoke()

    assert watch.ended(result).outcome == "CANCELLED"
    assert effects.count("no second time") == 1


def test_what_has_ended_is_not_revoked() -> None:
    result = callee.note.delay("ended")
    watch.ended(result)

    result.revoke()

    assert (watch.job(result).outcome, result.get(timeout=60)) == ("SUCCEEDED", "ended")


def test_the_rest_of_a_chain_whose_step_is_revoked_never_runs() -> None:
    tail = chain(callee.note.si("step 1").set(countdown=600), callee.note.si("step 2")).apply_async()

    tail.parent.revoke()
    tail.parent = None  # else it is asked instead

    with pytest.raises(TaskRevokedError):
        tail.get(timeout=60)
    assert tail.state == "REVOKED"
    assert effects.count("step 2") == 0


def test_jobs_are_revoked_by_a_stamp_of_theirs() -> None:
    marked = callee.note.si("stamped")
    marked.stamp(customer="7", append_stamps=True)
    other = callee.note.si("stamped otherwise")
    other.stamp(customer="8")
    several = group(callee.note.si("stamped").set(countdown=600) for _ in range(3))
    several.stamp(customer=["6", "7"])
    waiting = [marked.apply_async(countdown=600), *several.apply_async().results]
    spared = [other.apply_async(countdown=600), callee.note.apply_async(("unstamped",), countdown=600)]

    control.revoke_by_stamped_headers({"customer": ["7"]})

    assert watch.all_ended(waiting) == {"CANCELLED": 4}
    assert [watch.job(result).outcome for result in spared] == [None, None]
    control.revoke_by_stamped_headers({"customer": "8"})
    assert watch.ended(spared[0]).outcome == "CANCELLED"
    spared[1].revoke()


def test_a_running_job_is_terminated_by_a_stamp_of_its(gate: str) -> None:
    marked = callee.hold.si("stamped and running", gate)
    marked.stamp(order="42")
    result = marked.apply_async()
    watch.comes_to(Status.RUNNING, result)
    wait_until(lambda: effects.count("stamped and running"), what="it runs")

    control.revoke_by_stamped_headers({"order": "42"}, terminate=True)

    assert watch.ended(result).outcome == "CANCELLED"
    assert callee.note.delay("after it").get(timeout=60) == "after it"
    assert effects.count("stamped and running") == 1


# ---- inspect ---------------------------------------------------------------------------------------------------------------


def test_inspect_shows_what_runs_with_its_name_and_redacted_arguments(gate: str, open_gate: Open) -> None:
    result = callee.hold.apply_async(("card 4111 1111 1111 1111", gate))
    watch.comes_to(Status.RUNNING, result)

    (shown,) = wait_until(lambda: answer(lambda i: i.active()), what="it is shown")

    assert (shown["id"], shown["name"], shown["type"]) == (result.id, callee.hold.name, callee.hold.name)
    assert "4111 1111" not in str(shown)
    assert answer(lambda i: i.query_task(result.id))[result.id][0] == "active"
    open_gate(gate)
    watch.ended(result)
    wait_until(lambda: answer(lambda i: i.active()) == [], what="it is no longer shown")


def test_no_job_waits_inside_a_worker(gate: str, open_gate: Open) -> None:
    running = [callee.hold.delay("fills a slot", gate) for _ in range(SLOTS)]
    watch.comes_to(Status.RUNNING, *running)
    waiting = callee.note.delay("waits")
    later = callee.note.apply_async(("later",), countdown=600)
    watch.comes_to(Status.DISPATCHED, waiting)

    assert answer(lambda i: i.reserved()) == []
    assert answer(lambda i: i.scheduled()) == []
    later.revoke()
    open_gate(gate)
    watch.all_ended([*running, waiting])


def test_inspect_tells_tasks_queues_and_totals() -> None:
    assert callee.note.name in answer(lambda i: i.registered())
    assert {"default", "celeriac.default"} <= {queue["name"] for queue in answer(lambda i: i.active_queues())}
    stats = answer(lambda i: i.stats())
    before = stats["total"].get(callee.note.name, 0)
    callee.note.delay("counted").get(timeout=60)
    wait_until(
        lambda: answer(lambda i: i.stats())["total"].get(callee.note.name, 0) == before + 1, what="it is counted"
    )
    assert stats["pool"]["max-concurrency"] == SLOTS
    shown = answer(lambda i: i.conf())
    assert shown["CELERY_TASK_DEFAULT_QUEUE"] == "default"
    assert set(shown["SECRET_KEY"]) == {"*"}


# ---- at run time -----------------------------------------------------------------------------------------------------------


def test_a_time_limit_set_at_run_time_holds_for_what_begins_after_it() -> None:
    def set_to(hard: float | None, soft: float | None = None) -> None:
        (said,) = wait_until(
            lambda: control.time_limit(callee.hold.name, hard=hard, soft=soft, reply=True, timeout=5, limit=1),
            what="the worker has heard it",
        )
        assert "ok" in next(iter(said.values()))

    set_to(0.6)
    hard = watch.ended(callee.hold.delay("limited at run time", "never"))
    set_to(None, soft=0.4)
    soft = watch.ended(callee.hold.delay("softly limited at run time", "never"))
    set_to(None)

    assert (hard.outcome, hard.error_code) == ("FAILED", "CELERIAC_TIME_LIMIT_504")
    assert (soft.outcome, soft.error_code) == ("FAILED", "CELERIAC_SOFT_TIME_LIMIT_504")


def test_a_worker_takes_up_a_queue_and_gives_it_up_again(worker: Member) -> None:
    name = f"taken-up-{uuid.uuid4().hex[:6]}"
    first = callee.note.apply_async(("taken up",), queue=name)

    control.add_consumer(name, reply=True, timeout=5, limit=1)
    assert first.get(timeout=60) == "taken up"

    control.cancel_consumer(name, reply=True, timeout=5, limit=1)
    wait_until(lambda: name not in watch.incarnations(worker.pid)[-1].queues, what="the worker has given it up")
    second = callee.note.apply_async(("given up",), queue=name)
    witness = callee.note.delay("witness")
    assert witness.get(timeout=60) == "witness"
    assert watch.job(second).status is not Status.SUCCEEDED
    second.revoke()
    assert watch.ended(second).outcome == "CANCELLED"
    assert effects.count("given up") == 0


def test_a_pool_that_grows_runs_more_at_once(gate: str, open_gate: Open) -> None:
    results = [callee.hold.delay("more at once", gate) for _ in range(SLOTS + 1)]
    watch.comes_to(Status.RUNNING, *results[:SLOTS])

    control.pool_grow(1, reply=True, timeout=5, limit=1)

    watch.comes_to(Status.RUNNING, *results)
    control.pool_shrink(1, reply=True, timeout=5, limit=1)
    open_gate(gate)
    assert watch.all_ended(results) == {"SUCCEEDED": SLOTS + 1}
