"""What Celery's signals, and Sentry, are told of a job: in the caller once, in the worker once per attempt, with real arguments."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import signals

from tests.support import callee, effects, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

Open = Callable[[str], None]


@pytest.fixture(scope="module")
def app_name() -> str:
    """The app that says what it hears."""
    return "tests.support.callee"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Sentry's envelopes arrive."""
    return tmp_path_factory.mktemp("sentry") / "envelopes.jsonl"


@pytest.fixture(scope="module")
def overrides(reports: Path) -> dict[str, str]:
    """The worker listens to Celery's signals and has a Sentry."""
    return {"CALLEE_LISTENS": "1", "CALLEE_SENTRY": str(reports)}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader and a worker."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 2)


@pytest.fixture
def heard(paper: Path) -> Callable[..., list[dict[str, Any]]]:
    """What signals said of a job, in order."""

    def of(result: Any) -> list[dict[str, Any]]:
        return [json.loads(word) for job, word in effects.lines(paper) if job == str(result.id)]

    return of


@pytest.fixture
def publish() -> Iterator[list[tuple[str, Any]]]:
    """What this process is told of what it sends."""
    said: list[tuple[str, Any]] = []

    def before(sender: str, body: Any, headers: dict[str, Any], **more: Any) -> None:
        headers["x_added"] = {"by": "a receiver", "thread": threading.current_thread() is threading.main_thread()}
        said.append(("before", (sender, headers["id"], list(body[0]), body[1], more["routing_key"])))

    def after(sender: str, body: Any, headers: dict[str, Any], **more: Any) -> None:
        said.append(("after", (sender, headers["id"], list(body[0]), body[1], more["routing_key"])))

    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    yield said
    signals.before_task_publish.disconnect(before)
    signals.after_task_publish.disconnect(after)


# ---- in the caller ---------------------------------------------------------------------------------------------------------


def test_publish_signals_fire_once_in_the_caller_and_the_headers_they_add_arrive(
    publish: list[tuple[str, Any]],
) -> None:
    result = callee.told.apply_async(headers={"x_given": [1, "two"]}, shadow="a shadow")

    told = ("tests.support.callee.told", result.id, [], {}, "default")
    assert publish == [("before", told), ("after", told)]
    found = result.get(timeout=60)
    assert found == {"headers": {"by": "a receiver", "thread": True}, "given": [1, "two"], "shadow": "a shadow"}
    assert len(publish) == 2


def test_publish_signals_see_the_real_arguments_and_fire_in_send_task_too(publish: list[tuple[str, Any]]) -> None:
    result = callee.app.send_task("tests.support.callee.note", ("published",))

    assert [name for name, _ in publish] == ["before", "after"]
    assert publish[0][1][2:4] == (["published"], {})
    assert result.get(timeout=60) == "published"


# ---- in the worker ---------------------------------------------------------------------------------------------------------


def test_a_success_is_told_once_with_its_arguments_and_its_result(heard: Callable[..., Any]) -> None:
    result = callee.note.apply_async(kwargs={"word": "told once"})
    watch.ended(result)

    wait_until(lambda: len(heard(result)) >= 4, what="all is said")
    assert heard(result) == [
        {"signal": "received", "name": "tests.support.callee.note"},
        {"signal": "prerun", "args": [], "kwargs": {"word": "told once"}},
        {"signal": "success", "result": "told once"},
        {"signal": "postrun", "args": [], "kwargs": {"word": "told once"}, "state": "SUCCESS"},
    ]


def test_a_retry_is_told_as_a_retry_and_a_failure_once_at_the_end(heard: Callable[..., Any]) -> None:
    result = callee.fail_always.delay("told thrice", more="named")
    assert watch.ended(result).outcome == "FAILED"

    given = {"args": ["told thrice"], "kwargs": {"more": "named"}}
    received = {"signal": "received", "name": "tests.support.callee.fail_always"}
    tried = [received, {"signal": "prerun", **given}, {"signal": "retry", **given}]
    wait_until(lambda: len(heard(result)) >= 12, what="all is said")
    assert heard(result) == [
        *tried,
        {"signal": "postrun", **given, "state": "RETRY"},
        *tried,
        {"signal": "postrun", **given, "state": "RETRY"},
        received,
        {"signal": "prerun", **given},
        {"signal": "failure", **given, "error": "no 2"},
        {"signal": "postrun", **given, "state": "FAILURE"},
    ]


def test_a_run_that_is_terminated_is_told_as_revoked(heard: Callable[..., Any], gate: str) -> None:
    result = callee.hold.delay("terminated", gate)
    wait_until(lambda: effects.count("terminated"), what="it runs")

    result.revoke(terminate=True)

    assert watch.ended(result).outcome == "CANCELLED"
    said = wait_until(lambda: [s for s in heard(result) if s["signal"] == "revoked"], what="it is told")
    assert said == [{"signal": "revoked", "terminated": True, "expired": False}]


# ---- Sentry ----------------------------------------------------------------------------------------------------------------


class Reports:
    """What Sentry was sent."""

    def __init__(self, paper: Path) -> None:
        self._paper = paper

    def of(self, result: Any, kind: str = "event") -> list[dict[str, Any]]:
        """Items about a job."""
        return [said for said in self.all(kind) if str(result.id) in json.dumps(said)]

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Items of a kind."""
        lines = self._paper.read_text().splitlines() if self._paper.exists() else []
        return [said for found, said in map(json.loads, lines) if found == kind]


@pytest.fixture
def sentry(reports: Path) -> Reports:
    """What Sentry was sent."""
    return Reports(reports)


def _past(sentry: Reports) -> None:
    """Return once what earlier jobs had to report has arrived: a later job's has."""
    later = callee.fail_always.delay("later")
    watch.ended(later)
    wait_until(lambda: sentry.of(later), what="a later failure has arrived at Sentry")


def test_a_failed_job_is_one_event_for_sentry_and_not_one_per_attempt(sentry: Reports) -> None:
    result = callee.fail_always.delay("one event")
    job = watch.ended(result)
    assert (job.outcome, job.attempt) == ("FAILED", 3)

    wait_until(lambda: sentry.of(result), what="the failure has arrived at Sentry")
    _past(sentry)
    (event,) = sentry.of(result)
    assert event["exception"]["values"][-1]["type"] == "Refused"
    tags = event["tags"]
    assert (tags["job_id"], tags["task_type"]) == (result.id, "tests.support.callee.fail_always")
    assert tags["trace_id"] == str(job.trace)


def test_a_failure_that_heals_is_no_event_for_sentry(sentry: Reports) -> None:
    result = callee.fail_once.delay("healed")
    assert result.get(timeout=60) == "healed"

    _past(sentry)
    assert sentry.of(result) == []


def test_a_job_that_is_killed_by_its_hard_limit_is_one_event_for_sentry_too(sentry: Reports) -> None:
    result = callee.overrun.delay("overrun")
    job = watch.ended(result)
    assert (job.outcome, job.attempt) == ("FAILED", 2)

    wait_until(lambda: sentry.of(result), what="the failure has arrived at Sentry")
    _past(sentry)
    (event,) = sentry.of(result)
    tags = event["tags"]
    assert (tags["job_id"], tags["task_type"]) == (result.id, "tests.support.callee.overrun")
    assert tags["trace_id"] == str(job.trace)


def test_secrets_are_masked_in_what_sentry_gets(sentry: Reports) -> None:
    result = callee.fail_always.delay("masked", password="open sesame", note="card 4111 1111 1111 1111")
    watch.ended(result)

    (event,) = wait_until(lambda: sentry.of(result), what="the failure has arrived at Sentry")
    said = json.dumps(event)
    assert "open sesame" not in said
    assert "4111 1111 1111" not in said


def test_sentrys_traces_go_from_the_job_that_sends_to_the_job_that_is_sent(sentry: Reports) -> None:
    parent = callee.send_note.delay("traced")
    child = parent.get(timeout=60)
    watch.ended(child)

    def transaction(task: str, job: str) -> dict[str, Any] | None:
        for said in sentry.all("transaction"):
            if said["transaction"] == task and job in json.dumps(said):
                return said
        return None

    above = wait_until(lambda: transaction("tests.support.callee.send_note", parent.id), what="the parent's trace")
    below = wait_until(lambda: transaction("tests.support.callee.note", child), what="the child's trace")
    assert above["contexts"]["trace"]["trace_id"] == below["contexts"]["trace"]["trace_id"]
