"""Ids that we make are ordered by time and alike to none; ids that we are given come back as they were."""

from __future__ import annotations

import os
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celeriac import ids


def test_a_new_id_is_a_version_7_uuid_of_this_moment() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(ids.new())
    after = time.time_ns() // 1_000_000

    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= after


def test_new_ids_are_written_the_usual_way() -> None:
    for _ in range(2000):
        made = ids.new()
        assert str(uuid.UUID(made)) == made


def test_ids_of_later_milliseconds_sort_behind_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for millis in (1_700_000_000_000, 1_700_000_000_001, 1_800_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now=millis: now * 1_000_000)
        made.append(ids.new())
    assert made == sorted(made)


def test_many_ids_of_one_millisecond_are_alike_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    made = [ids.new() for _ in range(20_000)]
    assert len(set(made)) == len(made)


def test_a_forked_child_does_not_make_its_parents_ids() -> None:
    ids.new()  # the parent has random bytes in store
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, "".join(ids.new()[15:] for _ in range(3)).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    childs = os.read(read, 1000).decode()
    os.close(read)
    ours = [ids.new()[15:] for _ in range(3)]
    assert all(random not in childs for random in ours)


@given(st.uuids())
def test_a_uuid_is_itself_and_needs_no_alias(given_id: uuid.UUID) -> None:
    assert ids.to_uuid(str(given_id)) == (given_id, None)


@given(st.text(min_size=1))
def test_any_other_text_has_a_uuid_of_its_own_and_is_kept(given_id: str) -> None:
    found, alias = ids.to_uuid(given_id)
    assert (alias or str(found)) == given_id
    assert ids.to_uuid(given_id) == (found, alias)


@pytest.mark.parametrize(
    "written",
    [
        "0191B5A4-7C9E-7ABC-8DEF-0123456789AB",
        "{0191b5a4-7c9e-7abc-8def-0123456789ab}",
        "urn:uuid:0191b5a4-7c9e-7abc-8def-0123456789ab",
        "0191b5a47c9e7abc8def0123456789ab",
    ],
)
def test_a_uuid_written_another_way_comes_back_as_it_was_given(written: str) -> None:
    found, alias = ids.to_uuid(written)
    assert alias == written
    assert found != uuid.UUID(written)  # two callers who write it differently mean two jobs, as in Celery
