"""Who is given up, by two witnesses: the lock and the beat."""

from __future__ import annotations

import uuid

import pytest
from pytest_django import Settings

from celeriac.fleet.rescue import Orphan, Reading, verdict
from celeriac.outcomes import Ref


def reading(silent: float, *, lock: bool, witnessed: bool = True) -> Reading:
    return Reading(uuid.uuid4(), "sms1@host", silent, lock, witnessed)


@pytest.fixture(autouse=True)
def defaults(settings: Settings) -> None:
    settings.CELERIAC = {}


@pytest.mark.parametrize("lock", [True, False])
def test_who_beats_is_alive_whatever_its_lock_says(lock: bool) -> None:
    assert verdict(reading(0.5, lock=lock), fleet_late=False) is None


def test_a_free_lock_alone_is_no_proof() -> None:
    """pg_terminate_backend or a proxy's restart frees it too; the worker is back within 200 ms."""
    assert verdict(reading(0.9, lock=False), fleet_late=False) is None


def test_a_free_lock_and_no_beat_for_a_second_is_gone() -> None:
    why = verdict(reading(1.2, lock=False), fleet_late=False)
    assert why == "gone: its lock is free and its last beat was 1.2 s ago"


def test_late_beats_under_a_held_lock_wait_for_the_stall_limit() -> None:
    assert verdict(reading(14.9, lock=True), fleet_late=False) is None
    why = verdict(reading(15.0, lock=True), fleet_late=False)
    assert why == "stalled: no beat for 15.0 s, its lock is held"


def test_without_a_witness_beats_alone_decide() -> None:
    assert verdict(reading(5, lock=False, witnessed=False), fleet_late=False) is None
    assert verdict(reading(15, lock=False, witnessed=False), fleet_late=False) is not None


@pytest.mark.parametrize("lock", [True, False])
def test_a_fleet_that_is_late_together_is_given_three_times_as_long(lock: bool) -> None:
    assert verdict(reading(44.9, lock=lock), fleet_late=True) is None
    assert verdict(reading(45.0, lock=lock), fleet_late=True) is not None


def test_a_verdict_says_what_memory_the_worker_had_and_who_else_was_late() -> None:
    full = Reading(uuid.uuid4(), "sms1@host", 46.0, True, True, rss=812 * 2**20)
    why = verdict(full, fleet_late=True)
    assert why is not None
    assert "more than half of the fleet" in why
    assert why.endswith("its lock is held; its processes had 812 MB then")


def test_only_the_one_suspect_aboard_is_charged() -> None:
    def orphan(*, suspicion: int, suspects: int, gone: bool = True) -> Orphan:
        return Orphan(Ref(1, 1), "sms", uuid.uuid4(), suspicion, 0, gone, "gone: …", suspects)

    assert orphan(suspicion=1, suspects=1).charged
    assert not orphan(suspicion=0, suspects=1).charged, "a neighbour"
    assert not orphan(suspicion=1, suspects=2).charged, "nobody knows which of the two"
    assert not orphan(suspicion=1, suspects=1, gone=False).charged, "it was stopped by us"


def test_limits_are_settings(settings: Settings) -> None:
    settings.CELERIAC = {"GONE_AFTER": 3.0, "STALL_AFTER": 60.0}
    assert verdict(reading(2.5, lock=False), fleet_late=False) is None
    assert verdict(reading(59, lock=True), fleet_late=False) is None
    assert verdict(reading(3, lock=False), fleet_late=False) is not None
