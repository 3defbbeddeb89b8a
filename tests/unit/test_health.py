"""What a probe says of readings: a busy worker is well, one that consumes nothing isn't, and nobody is restarted for the database."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from celeriac.observe import health
from celeriac.observe.health import LeaderReading, SeatReading, WorkerReading


def reading(**differs: Any) -> WorkerReading:
    """A worker that is well, but for what differs."""
    well = {"hostname": "sms1@host", "id": uuid.uuid4(), "state": "alive", "lock_held": True, "silent": 0.3}
    return WorkerReading(**{**well, "age": 3600.0, "slots": 8, "free": 3, "queues": ["sms"], **differs})


LEADER = LeaderReading(7, "a:1", True, 0.2)
SEATS = [SeatReading("seat-1", "a:1", 0.2), SeatReading("seat-2", "b:1", 0.3)]

# ---- a worker --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "differs",
    [
        {},
        {"free": 0},
        {"state": "draining"},
        {"state": "stopping"},
        {"state": "starting", "age": 59.0},
        {"lock_held": False, "silent": 1.9},
        {"silent": 4.9},
    ],
    ids=["idle", "busy", "draining", "stopping", "starting", "reconnecting", "late but locked"],
)
def test_a_worker_that_does_what_it_should_is_healthy(differs: dict[str, Any]) -> None:
    assert health.worker(reading(**differs)).healthy


@pytest.mark.parametrize(
    ("differs", "reason"),
    [
        ({"state": "deaf"}, "deaf"),
        ({"state": "wedged"}, "wedged"),
        ({"state": "starting", "age": 61.0}, "not consuming"),
        ({"silent": 5.1}, "silent: its last beat was 5.1 s ago, its lock is held"),
        ({"silent": 5.1, "lock_held": False}, "its lock is free"),
        ({"silent": 2.1, "lock_held": False}, "its lock is free"),
        ({"state": "draining", "silent": 9.0}, "silent"),
    ],
)
def test_a_worker_that_does_not_is_unhealthy_and_the_reason_is_said(differs: dict[str, Any], reason: str) -> None:
    check = health.worker(reading(**differs))
    assert not check.healthy
    assert reason in check.reason


def test_a_project_that_beats_less_often_is_given_the_time() -> None:
    late = reading(silent=11.0, lock_held=False)
    assert not health.worker(late).healthy
    assert health.worker(late, beat_every=3.0).healthy


def test_a_host_without_a_worker_is_unhealthy() -> None:
    report = health.workers_here([], "host web7")
    assert (report.healthy, report.status) == (False, "unhealthy")
    assert "host web7" in report.checks[0].reason


def test_one_unhealthy_worker_fails_its_host() -> None:
    report = health.workers_here([reading(), reading(hostname="mail1@host", state="deaf")], "host a")
    assert [check.healthy for check in report.checks] == [True, False]
    assert not report.healthy


def test_a_new_process_does_not_fail_for_the_end_of_the_old_one() -> None:
    dead = reading(lock_held=False, silent=7.0, age=500.0)
    born = reading(state="starting", age=1.0)
    assert health.workers_here([dead, born], "host a").healthy
    assert not health.workers_here([dead], "host a").healthy


def test_a_deaf_worker_does_not_hide_behind_a_younger_namesake() -> None:
    assert not health.workers_here([reading(state="deaf", age=500.0), reading(age=1.0)], "host a").healthy


# ---- a scheduler -----------------------------------------------------------------------------------------------------


def test_a_scheduler_whose_loop_goes_round_is_healthy_whether_it_leads_or_not() -> None:
    assert health.schedulers_here(SEATS, "a").healthy
    assert health.schedulers_here(SEATS, "b").healthy


def test_a_scheduler_that_stands_still_is_unhealthy() -> None:
    report = health.schedulers_here([SeatReading("seat-1", "a:1", 5.1)], "a")
    assert not report.healthy
    assert "stands still" in report.checks[0].reason


@pytest.mark.parametrize("host", ["c", "a:1", ""])
def test_a_host_without_a_scheduler_is_unhealthy(host: str) -> None:
    assert not health.schedulers_here(SEATS, host).healthy


# ---- the platform ----------------------------------------------------------------------------------------------------


def failed(report: health.Report) -> list[str]:
    return [check.what for check in report.checks if not check.healthy]


def test_a_platform_with_a_leader_a_standby_and_consumers_is_healthy() -> None:
    report = health.platform(LEADER, SEATS, [reading()], ["sms"])
    assert (report.healthy, report.status) == (True, "healthy")


@pytest.mark.parametrize(
    "leader",
    [None, LeaderReading(0, "", False, 0.1), LeaderReading(7, "a:1", False, 0.1), LeaderReading(7, "a:1", True, 5.1)],
    ids=["never", "not yet", "gone", "stands still"],
)
def test_without_a_leader_the_platform_is_unhealthy(leader: LeaderReading | None) -> None:
    assert failed(health.platform(leader, SEATS, [reading()], [])) == ["leader"]


@pytest.mark.parametrize("seats", [[], SEATS[:1], [SEATS[0], SeatReading("seat-2", "b:1", 9.0)]])
def test_a_missing_standby_is_noted_and_fails_nothing(seats: list[SeatReading]) -> None:
    report = health.platform(LEADER, seats, [reading()], [])
    assert report.healthy
    assert [check.reason.partition(":")[0] for check in report.checks if check.what == "standby"] == ["note"]


@pytest.mark.parametrize("state", ["starting", "draining", "stopping"])
def test_what_is_due_wants_a_worker_that_takes_it(state: str) -> None:
    workers = [reading(state=state, age=1.0), reading(hostname="mail1@host", queues=["email"])]
    assert failed(health.platform(LEADER, SEATS, workers, ["email", "sms"])) == ["queue sms"]


def test_one_unhealthy_worker_fails_the_platform() -> None:
    report = health.platform(LEADER, SEATS, [reading(), reading(state="wedged")], [])
    assert len(failed(report)) == 1


# ---- the database is away ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "healthy"), [("worker", True), ("scheduler", True), ("all", False)])
def test_while_the_database_is_away_nobody_is_restarted_and_the_platform_is_not_well(
    what: health.What, healthy: bool
) -> None:
    report = health.unknown(what, "connection refused")
    assert (report.healthy, report.status) == (healthy, "unknown")
    assert report.checks[0].reason == f"{health.AWAY} (connection refused)"
