"""An outcome comes back from the spool as it went in."""

from __future__ import annotations

import dataclasses
import json
import uuid
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from celeriac.asked import NewJob
from celeriac.outcomes import Failure, Outcome, Ref
from celeriac.settle.wire import from_entry, to_entry
from celeriac.states import ParkedReason, Status

moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
texts = st.text(max_size=30)
numbers = st.floats(0, 1e6)
maybe = st.none


def sends() -> st.SearchStrategy[NewJob]:
    return st.builds(
        NewJob,
        task_id=st.uuids(),
        task_type=texts,
        queue=texts,
        payload=texts,
        alias=maybe() | texts,
        priority=st.integers(0, 9),
        biz_id=maybe() | texts,
        trace_id=maybe() | st.uuids(),
        root_id=maybe() | st.uuids(),
        parent_id=maybe() | st.uuids(),
        group_id=maybe() | st.uuids(),
        delay=numbers,
        run_at=maybe() | moments,
        expires_in=maybe() | numbers,
        expires_at=maybe() | moments,
        time_limit=maybe() | numbers,
        retry_count=st.integers(0, 9),
        parked_reason=maybe() | st.sampled_from(ParkedReason),
        fresh=st.booleans(),
    )


outcomes = st.builds(
    Outcome,
    ref=st.builds(Ref, st.integers(1), st.integers(0)),
    task_id=texts,
    task_type=texts,
    queue=texts,
    status=st.sampled_from(Status),
    arrow=texts,
    result=maybe() | texts,
    failure=maybe() | st.builds(Failure, texts, texts, texts, texts, texts),
    delay=numbers,
    run_at=maybe() | moments,
    retry_count=maybe() | st.integers(0, 99),
    payload=maybe() | texts,
    parked_reason=maybe() | st.sampled_from([reason.value for reason in ParkedReason]),
    reason=texts,
    sends=st.lists(sends(), max_size=3).map(tuple),
    replaced_by=maybe() | st.tuples(texts, texts),
    seconds=maybe() | numbers,
    lost_by=st.integers(0, 1),
    args_repr=texts,
)


@given(outcomes)
def test_every_outcome_survives_json(outcome: Outcome) -> None:
    assert from_entry(json.loads(json.dumps(to_entry(outcome)))) == outcome


def test_types_that_json_lacks_come_back_as_what_they_were() -> None:
    send = NewJob(
        uuid.uuid4(), "shop.sms", "sms", "{}", run_at=datetime(2026, 1, 2, tzinfo=UTC), parked_reason=ParkedReason.ORDER
    )
    outcome = Outcome(Ref(1, 2), "id", "shop.sms", "sms", Status.SUCCEEDED, "succeeded", sends=(send,))

    back = from_entry(json.loads(json.dumps(to_entry(outcome))))

    assert isinstance(back.status, Status)
    assert isinstance(back.ref, Ref)
    assert isinstance(back.sends[0].task_id, uuid.UUID)
    assert isinstance(back.sends[0].run_at, datetime)
    assert back.sends[0].parked_reason is ParkedReason.ORDER


def test_no_field_of_an_outcome_is_forgotten_by_the_spool() -> None:
    outcome = Outcome(Ref(1, 2), "id", "shop.sms", "sms", Status.SUCCEEDED, "succeeded")
    assert set(to_entry(outcome)) == {field.name for field in dataclasses.fields(Outcome)}
