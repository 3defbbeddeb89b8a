"""The arrow table holds together: every state can be reached, left, and shown to Celery."""

from __future__ import annotations

import pytest
from celery import states as celery_states

from celeriac.models import Job, Live
from celeriac.states import ARROWS, BY_NAME, CELERY_STATE, ENDED, LIVE, OWNERS, WAITING, Owner, Status, arrow


def test_every_status_is_either_live_or_ended() -> None:
    assert set(LIVE) | set(ENDED) == set(Status)
    assert not set(LIVE) & set(ENDED)
    assert set(WAITING) < set(LIVE)


def test_every_arrow_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(ARROWS)


def test_every_status_can_be_reached() -> None:
    assert {step.target for step in ARROWS} == set(Status)


@pytest.mark.parametrize("status", LIVE)
def test_every_unfinished_job_has_an_owner_and_a_way_to_an_end(status: Status) -> None:
    assert OWNERS[status] in (Owner.SCHEDULER, Owner.WORKER)
    seen: set[Status] = set()
    reached = {status}
    while reached - seen:
        seen |= reached
        reached = {step.target for step in ARROWS if step.source in seen}
    assert reached & set(ENDED)


def test_an_ended_job_moves_only_out_of_the_dead_letters() -> None:
    assert {step.source for step in ARROWS if step.source in ENDED} == {Status.DEAD_LETTER}
    assert OWNERS[Status.DEAD_LETTER] is Owner.TRIAGE
    assert {status for status in ENDED if OWNERS[status] is None} == set(ENDED) - {Status.DEAD_LETTER}


def test_only_a_claim_leads_to_running() -> None:
    assert [step.name for step in ARROWS if step.target is Status.RUNNING] == ["claimed"]


def test_whatever_takes_a_job_from_its_message_raises_the_fence() -> None:
    """A copy of the message is in the broker: under the old fence it could still claim."""
    ends = {step.name for step in ARROWS if step.target in ENDED}
    for step in ARROWS:
        if step.source is Status.DISPATCHED and step.name not in ends:
            assert step.raises_fence, step.name


def test_a_new_life_raises_the_fence() -> None:
    assert arrow("redelivered").raises_fence


def test_a_claim_makes_every_earlier_message_stale() -> None:
    assert arrow("claimed").raises_fence


def test_the_happy_path_writes_no_history() -> None:
    quiet = {step.name for step in ARROWS if not step.exceptional}
    assert quiet == {"accepted", "accepted_parked", "dispatched", "dispatched_again", "claimed", "succeeded"}


def test_every_arrow_says_its_guard_in_words() -> None:
    assert all(step.guard.strip() for step in ARROWS)


def test_a_move_that_does_not_exist_is_an_error_of_ours() -> None:
    with pytest.raises(KeyError):
        arrow("vanished")


def test_celery_knows_every_status_by_one_of_its_own_states() -> None:
    assert set(CELERY_STATE) == set(Status)
    assert set(CELERY_STATE.values()) <= celery_states.ALL_STATES
    assert {CELERY_STATE[status] for status in ENDED} <= celery_states.READY_STATES
    assert {CELERY_STATE[status] for status in LIVE} <= celery_states.UNREADY_STATES


def test_the_tables_offer_exactly_the_statuses_of_the_vocabulary() -> None:
    assert [value for value, _ in Live._meta.get_field("status").choices] == [status.value for status in LIVE]
    assert [value for value, _ in Job._meta.get_field("outcome").choices] == [status.value for status in ENDED]


def test_every_name_fits_its_column() -> None:
    from celeriac.models import History

    longest = History._meta.get_field("event").max_length
    assert max(len(step.name) for step in ARROWS) <= longest
