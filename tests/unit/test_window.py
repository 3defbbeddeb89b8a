"""The broker never holds more than the free slots, and never nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celeriac.dispatch.window import BRISK, Pace, overtaken, rooms, starved
from celeriac.ledger.queries import Demand


def test_as_many_are_dispatched_as_slots_are_free() -> None:
    assert rooms([Demand("sms", free_slots=8, dispatched=0)], ()) == {"sms": 8}


def test_what_is_dispatched_already_takes_its_room() -> None:
    assert rooms([Demand("sms", free_slots=8, dispatched=5)], ()) == {"sms": 3}


def test_a_full_queue_gets_nothing() -> None:
    assert rooms([Demand("sms", free_slots=8, dispatched=8)], ()) == {}


def test_a_queue_without_a_free_slot_has_one_job_ready_for_the_next() -> None:
    assert rooms([Demand("sms", free_slots=0, dispatched=0)], ()) == {"sms": 1}
    assert rooms([Demand("sms", free_slots=0, dispatched=1)], ()) == {}


def test_a_queue_that_is_switched_off_gets_nothing_and_its_neighbour_does() -> None:
    demands = [Demand("sms", 8, 0), Demand("email", 4, 0)]
    assert rooms(demands, {"sms"}) == {"email": 4}


def test_slots_that_went_away_dispatch_nothing_more() -> None:
    assert rooms([Demand("sms", free_slots=2, dispatched=8)], ()) == {}


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_window_is_never_exceeded(free: int, dispatched: int) -> None:
    room = rooms([Demand("q", free, dispatched)], ()).get("q", 0)
    assert room >= 0
    assert dispatched >= max(1, free) or room + dispatched == max(1, free)


def waiting(free: int, dispatched: int, lowest: int | None, highest: int | None) -> Demand:
    return Demand("sms", free, dispatched, lowest_dispatched=lowest, highest_due=highest)


def test_a_message_without_a_free_slot_makes_way_for_a_more_urgent_job() -> None:
    assert overtaken([waiting(0, 1, lowest=3, highest=7)], ()) == ["sms"]


def test_a_message_that_has_its_slot_makes_way_for_nobody() -> None:
    assert overtaken([waiting(1, 1, lowest=3, highest=7)], ()) == []


def test_nobody_makes_way_for_an_equal_or_for_nothing() -> None:
    assert overtaken([waiting(0, 1, lowest=3, highest=3)], ()) == []
    assert overtaken([waiting(0, 1, lowest=3, highest=None)], ()) == []
    assert overtaken([waiting(0, 1, lowest=3, highest=9)], {"sms"}) == []


# ---- short jobs --------------------------------------------------------------------------------------------------------


def test_of_a_brisk_queue_one_job_more_for_each_slot_may_wait_in_the_broker() -> None:
    busy = Demand("sms", free_slots=0, dispatched=0, slots=4)
    assert rooms([busy], ()) == {"sms": 1}
    assert rooms([busy], (), brisk={"sms"}) == {"sms": 5}
    assert rooms([Demand("sms", free_slots=4, dispatched=8, slots=4)], (), brisk={"sms"}) == {}


def test_a_queue_is_brisk_while_its_slots_take_jobs_that_must_be_short() -> None:
    pace = Pace()
    demand = Demand("sms", free_slots=0, dispatched=0, slots=2)
    for moment in range(2 * BRISK):
        assert pace.brisk([demand], moment / 100) == set()
        pace.note("sms", 1, moment / 100)
    assert pace.brisk([demand], 0.2) == {"sms"}
    assert pace.brisk([demand], 1.3) == set(), "a second later it has to show it again"


def test_a_queue_without_workers_is_never_brisk() -> None:
    pace = Pace()
    pace.note("sms", 1000, 0.0)
    assert pace.brisk([Demand("sms", 0, 0, slots=0)], 0.0) == set()


def test_a_queue_that_waits_for_nothing_but_a_slot_is_starved() -> None:
    full = Demand("sms", free_slots=0, dispatched=1, waiting=True)
    assert starved([full], rooms=(), queues_off=())
    assert not starved([full], rooms=("sms",), queues_off=())
    assert not starved([full], rooms=(), queues_off=("sms",))
    assert not starved([Demand("sms", 0, 1, waiting=False)], rooms=(), queues_off=())
