"""``AsyncResult`` of a job: what it tells at each point of its way, and what it tells of ids that are no job's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeout
from celery.result import AsyncResult, result_from_tuple

from celeriac import codes
from celeriac.errors import JobExists
from celeriac.states import Status
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

Open = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader and a worker."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 2)


def asked(task_id: str) -> AsyncResult:
    """As another process asks, that has nothing but the id."""
    return AsyncResult(task_id, app=probe.app)


def test_of_a_success_it_tells_everything() -> None:
    job = probe.note.apply_async(("told",), ignore_result=False)
    watch.ended(job)
    result = asked(job.id)

    assert (result.state, result.status) == ("SUCCESS", "SUCCESS")
    assert (result.ready(), result.successful(), result.failed()) == (True, True, False)
    assert (result.result, result.info, result.get()) == ("told", "told", "told")
    assert (result.name, result.queue, result.retries) == (probe.note.name, "default", 0)
    assert (result.traceback, result.children) == (None, [])
    assert isinstance(result.date_done, datetime)
    assert result.exists()


def test_of_a_failure_it_tells_the_exception() -> None:
    job = probe.fail.delay("told of", "because")
    watch.ended(job)
    result = asked(job.id)

    assert (result.state, result.ready(), result.successful(), result.failed()) == ("FAILURE", True, False, True)
    assert isinstance(result.result, probe.Refused)
    assert str(result.info) == "because"
    assert isinstance(result.get(propagate=False), probe.Refused)
    with pytest.raises(probe.Refused, match="because"):
        result.get()
    with pytest.raises(probe.Refused, match="because"):
        result.maybe_throw()
    assert "in fail" in result.traceback
    assert "raise Refused(message)" in result.traceback


def test_while_it_waits_for_a_retry_it_tells_why() -> None:
    result = probe.retry_later.delay("told why")
    watch.comes_to(Status.RETRY, result)

    assert (result.state, str(result.info), result.retries) == ("RETRY", "not yet", 1)
    assert not result.ready()
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=60)


def test_while_it_runs_it_tells_how_far_it_is(gate: str, open_gate: Open) -> None:
    result = probe.report_progress.delay(gate)

    wait_until(lambda: result.state == "PROGRESS", what="it says how far it is")
    assert result.info == {"done": 3, "of": 10}
    assert not result.ready()
    open_gate(gate)
    assert result.get(timeout=60) == "done"


def test_an_unknown_id_is_told_apart_from_a_job_that_waits() -> None:
    unknown = asked(str(uuid.uuid4()))
    waiting = probe.note.apply_async(("waits",), countdown=600)
    seen = asked(waiting.id)

    assert (unknown.state, seen.state) == ("PENDING", "PENDING")  # Celery's one word for both
    assert (unknown.exists(), seen.exists()) == (False, True)
    assert (unknown.name, seen.name) == (None, probe.note.name)
    waiting.revoke()


def test_an_id_that_is_no_uuid_is_asked_for_like_any_other() -> None:
    assert not asked("nobody's order").exists()
    probe.note.apply_async(("by its own id",), task_id="somebody's order").get(timeout=60)

    result = asked("somebody's order")

    assert (result.id, result.get(timeout=60)) == ("somebody's order", "by its own id")


def test_a_result_that_is_forgotten_is_gone_and_the_job_is_not() -> None:
    result = probe.note.delay("forgotten")
    watch.ended(result)

    result.forget()

    again = asked(result.id)
    assert (again.state, again.result) == ("SUCCESS", None)
    assert watch.job(result).outcome == "SUCCEEDED"
    with pytest.raises(JobExists):
        probe.note.apply_async(("forgotten",), task_id=result.id)
    assert effects.count("forgotten") == 1


def test_what_is_asked_for_before_it_is_forgotten_by_whoever_waits() -> None:
    result = probe.note.delay("got")

    assert result.get(timeout=60) == "got"
    assert result.get(timeout=60) == "got"


def test_a_large_result_is_whole_and_one_beyond_the_limit_fails_with_its_size() -> None:
    large = probe.echo.delay(blob="x" * 400_000)
    found = large.get(timeout=60)
    assert len(found["kwargs"]["blob"]) == 400_000

    job = watch.ended(probe.echo.delay(blob="x" * 700_000))
    assert (job.outcome, job.error_code) == ("FAILED", codes.RESULT_TOO_LARGE)


def test_values_come_back_as_what_they_were() -> None:
    given = [Decimal("1.10"), uuid.UUID(int=7), datetime(2026, 3, 1, tzinfo=UTC), b"\x00\xff", None, "🥕 \x00"]

    assert probe.echo.delay(*given).get(timeout=60)["args"] == given


def test_nothing_is_a_result_too() -> None:
    result = probe.do_nothing.delay()

    assert result.get(timeout=60) is None
    assert (result.state, result.successful()) == ("SUCCESS", True)


def test_a_result_travels_as_a_tuple_and_back() -> None:
    result = probe.add.delay(20, 22)

    again = result_from_tuple(result.as_tuple(), app=probe.app)

    assert again.get(timeout=60) == 42
    assert again == result


def test_whoever_waits_is_called_before_it_has_ended(gate: str, open_gate: Open) -> None:
    result = probe.hold.delay("called", gate)

    # Nobody else opens the gate.
    assert result.get(timeout=60, on_interval=lambda: open_gate(gate)) == "called"


def test_extended_results_have_arguments_and_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    job = probe.echo.delay(1, two=[2])
    watch.ended(job)
    assert (asked(job.id).args, asked(job.id).worker) == (None, None)

    monkeypatch.setitem(probe.app.conf, "result_extended", True)
    result = asked(job.id)

    assert (result.args, result.kwargs, result.name) == ([1], {"two": [2]}, probe.echo.name)
    assert result.worker == watch.worker_of(job).hostname


def test_a_callback_is_given_id_and_value() -> None:
    given: list[Any] = []
    result = probe.add.delay(2, 2)

    result.get(timeout=60, callback=lambda task_id, value: given.append((task_id, value)))
    assert given == [(result.id, 4)]
    then: list[Any] = []
    late = probe.add.delay(3, 3)
    late.then(lambda done: then.append(done.id))
    late.get(timeout=60)
    assert then == [late.id]


def test_waiting_without_a_time_to_wait_ends_at_once() -> None:
    result = probe.note.apply_async(("not awaited",), countdown=600)

    with pytest.raises(CeleryTimeout):
        result.get(timeout=0)
    with pytest.raises(CeleryTimeout):
        result.get(timeout=-1)
    result.revoke()
