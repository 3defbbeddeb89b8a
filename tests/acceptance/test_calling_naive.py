"""A project that keeps local times without a zone (``USE_TZ = False``, New York) calls, retries, expires and is rescued like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from celeriac.models import Job
from celeriac.states import Status
from tests.support import effects, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

#: Half an hour: a zone that was taken for another one shows as an error of hours.
FAR = 1800.0


@pytest.fixture(scope="module")
def app_name() -> str:
    """The app that says what it hears."""
    return "tests.support.callee"


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """Every process of the fleet is such a project's."""
    return {"DJANGO_SETTINGS_MODULE": "tests.support.naive_settings"}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader and a worker."""
    fleet.scheduler(wait=False)
    fleet.worker("default,side", 2)


def call(fleet: Fleet, *calls: dict[str, Any]) -> list[str]:
    """Ids of what a process of the project has called."""
    member = fleet.python("caller", ["-m", "tests.support.caller", json.dumps(calls)])
    assert member.wait(60) == 0, member.tail()
    ids: list[str] = json.loads(member.text().splitlines()[-1])
    return ids


def waited(job: Job) -> float:
    """Seconds from acceptance to the last start."""
    assert job.started_at is not None
    return (job.started_at - job.created_at).total_seconds()


def test_countdowns_and_moments_are_kept_to(fleet: Fleet) -> None:
    note = "tests.support.callee.note"
    ids = call(
        fleet,
        {"task": note, "args": ["at once"]},
        {"task": note, "args": ["countdown"], "options": {"countdown": 1.0}},
        {"task": note, "args": ["aware"], "options": {"eta_in": 2.0, "expires_at_in": FAR}},
        {"task": note, "args": ["naive"], "options": {"naive_eta_in": 2.0, "naive_expires_at_in": FAR}},
    )

    at_once, countdown, aware, naive = (watch.ended(each) for each in ids)
    assert {job.outcome for job in (at_once, countdown, aware, naive)} == {"SUCCEEDED"}
    assert waited(at_once) < FAR
    assert 1.0 <= waited(countdown) < FAR
    # The moments were made in the caller, a little before the rows.
    assert all(1.0 < waited(job) < FAR for job in (aware, naive))


def test_what_has_expired_does_not_run(fleet: Fleet) -> None:
    note = "tests.support.callee.note"
    ids = call(
        fleet,
        {"task": note, "args": ["expired"], "options": {"expires_at_in": -5}},
        {"task": note, "args": ["expired"], "options": {"naive_expires_at_in": -5}},
        {"task": note, "args": ["expired"], "options": {"countdown": FAR, "expires": 0.2}},
    )

    assert watch.all_ended(ids) == {"CANCELLED": 3}
    assert effects.count("expired") == 0


def test_a_retry_waits_for_its_countdown(fleet: Fleet) -> None:
    (result,) = call(
        fleet, {"task": "tests.support.callee.again_in", "args": ["again", 1.0], "options": {"expires": FAR}}
    )

    job = watch.ended(result)

    assert (job.outcome, job.attempt) == ("SUCCEEDED", 2)
    assert 1.0 <= effects.seconds_between("again", "again") < FAR


def test_a_retry_at_a_naive_moment_is_waited_for(fleet: Fleet) -> None:
    (result,) = call(fleet, {"task": "tests.support.callee.again_at", "args": ["at", 1.0]})

    job = watch.ended(result)

    assert (job.outcome, job.attempt) == ("SUCCEEDED", 2)
    assert 1.0 <= effects.seconds_between("at", "at") < FAR


def test_datetimes_arrive_with_or_without_their_zone_as_they_were_given(fleet: Fleet) -> None:
    member = fleet.python(
        "sender",
        [
            "-c",
            "import django; django.setup()\n"
            "from datetime import datetime\nfrom zoneinfo import ZoneInfo\n"
            "from tests.support.callee import stranger\n"
            "print(stranger.delay(datetime(2026, 3, 8, 2, 30)).id, "
            "stranger.delay(datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo('America/New_York'))).id)",
        ],
    )
    assert member.wait(60) == 0, member.tail()
    naive, aware = (watch.ended(job) for job in member.text().split()[-2:])

    assert "2026-03-08T02:30:00" in str(naive.result)
    given = datetime.fromisoformat(json.loads(str(aware.result))[1])
    assert given == datetime.fromisoformat("2026-11-01T01:30:00-04:00")


def test_a_killed_childs_job_runs_again_and_its_story_can_be_told(
    fleet: Fleet, gate: str, open_gate: Callable[[str], None]
) -> None:
    (result,) = call(fleet, {"task": "tests.support.callee.hold", "args": ["killed", gate]})
    watch.comes_to(Status.RUNNING, result)
    wait_until(lambda: effects.count("killed") == 1, what="it runs")
    live = watch.live(result)
    assert live is not None
    (child,) = [each for member in fleet.members for each in member.children() if each.pid == live.child_pid]

    child.kill()

    wait_until(watch.runs_as(2, result), what="it runs again")
    open_gate(gate)
    assert watch.ended(result).outcome == "SUCCEEDED"
    told = fleet.manage("trace", ["celeriac", "trace", result])
    assert told.wait(60) == 0, told.tail()
    assert "killed by signal 9" in told.text()
