"""Where suspects run: spread while there is room, alone after a second loss, and never waiting for ever."""

from __future__ import annotations

import uuid
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from celeriac.dispatch.suspects import ISOLATED, ISOLATION, place
from celeriac.dispatch.window import overtaken, rooms
from celeriac.ledger.queries import Demand, Room, Suspect
from celeriac.outcomes import Ref

_jobs = count(1)


def suspect(level: int = 1, *, queue: str = "sms", waits: float = 0.0) -> Suspect:
    return Suspect(Ref(next(_jobs), 2), queue, level, waits)


def room(free: int = 8, *, queues: tuple[str, ...] = ("sms",), suspects: int = 0, worst: int = 0) -> Room:
    return Room(uuid.uuid4(), list(queues), free, suspects, worst)


def test_jobs_lost_once_are_spread_over_the_workers() -> None:
    workers = [room(), room(), room()]
    suspects = [suspect() for _ in range(3)]
    placed = place(suspects, workers)
    assert sorted(placed.jobs.values()) == sorted(w.worker for w in workers)
    assert placed.reserved == {}


def test_jobs_lost_once_run_side_by_side_where_there_are_no_more_workers() -> None:
    only = room(8)
    suspects = [suspect() for _ in range(6)]
    assert place(suspects, [only]).jobs == {s.ref: only.worker for s in suspects}


def test_a_job_lost_twice_runs_with_no_other_suspect_beside_it() -> None:
    only = room(8)
    first, second = suspect(ISOLATED), suspect(ISOLATED)
    assert place([first, second], [only]).jobs == {first.ref: only.worker}
    assert place([suspect(1)], [room(8, suspects=1, worst=ISOLATED)]).jobs == {}
    assert place([suspect(ISOLATED)], [room(8, suspects=1, worst=1)]).jobs == {}


def test_nobody_waits_for_such_a_place_for_ever() -> None:
    taken = room(8, suspects=1, worst=ISOLATED)
    late = suspect(ISOLATED, waits=ISOLATION)
    assert place([late], [taken]).jobs == {late.ref: taken.worker}
    again = suspect(ISOLATED + 1, waits=ISOLATION)
    assert place([again], [taken]).jobs == {}, "after another loss it is worth waiting longer"
    assert place([suspect(50, waits=ISOLATION * 64)], [taken]).jobs != {}


def test_where_all_slots_are_taken_the_next_one_is_reserved() -> None:
    placed = place([suspect()], [room(0), room(0)])
    assert placed.jobs == {}
    assert placed.reserved == {"sms": 0}


def test_nothing_is_reserved_while_it_waits_for_another_suspect_to_end() -> None:
    """Ordinary jobs go on meanwhile."""
    assert place([suspect(ISOLATED)], [room(3, suspects=1, worst=1)]).reserved == {}


def test_a_worker_of_another_queue_is_no_place() -> None:
    placed = place([suspect(queue="sms")], [room(queues=("email",))])
    assert (placed.jobs, placed.reserved) == ({}, {})


@given(
    st.lists(st.tuples(st.integers(1, 5), st.floats(0, 100)), max_size=20),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=6),
)
def test_no_worker_gets_more_than_its_free_slots(asked: list[tuple[int, float]], given: list[tuple[int, int]]) -> None:
    workers = [room(free, suspects=aboard, worst=aboard) for free, aboard in given]
    free = {w.worker: w.free for w in workers}
    placed = place([suspect(level, waits=waits) for level, waits in asked], workers)
    for worker, slots in free.items():
        assert list(placed.jobs.values()).count(worker) <= slots


def test_slots_where_the_suspect_may_not_go_are_left_to_ordinary_jobs() -> None:
    placed = place([suspect(ISOLATED)], [room(0), room(5, suspects=1, worst=1), room(3, queues=("email",))])
    assert placed.reserved == {"sms": 5}


def test_a_reserved_queue_has_no_job_ready_for_the_next_slot() -> None:
    assert rooms([Demand("sms", free_slots=0, dispatched=0)], (), reserved={"sms": 0}) == {}
    freed_since = Demand("sms", free_slots=2, dispatched=0)
    assert rooms([freed_since], (), reserved={"sms": 0}) == {}
    assert rooms([freed_since], (), brisk={"sms"}, reserved={"sms": 1}) == {"sms": 1}


def test_what_stands_in_the_way_of_a_rescued_job_is_taken_back() -> None:
    full = Demand("sms", free_slots=0, dispatched=1, lowest_dispatched=9, highest_due=None)
    assert overtaken([full], ()) == []
    assert overtaken([full], (), reserved={"sms"}) == ["sms"]
