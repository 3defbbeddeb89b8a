"""Celery's canvas, carried by the ledger."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import ChordError

from celeriac.models import DeadLetter, Job
from celeriac.triage import letters
from celeriac.triage.letters import Decider
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.transactions import rolled_back
from tests.support.waiting import wait_until

LIMIT = 60.0
Open = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """Enough slots that parts of a chord end at the same time."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 3)


def test_each_step_of_a_chain_gets_what_the_one_before_returned() -> None:
    result = chain(probe.add.s(1, 2), probe.add.s(10), probe.add.s(100))()

    assert result.get(timeout=LIMIT) == 113
    steps = [watch.job(step) for step in (result, result.parent, result.parent.parent)]
    assert [step.outcome for step in steps] == ["SUCCEEDED"] * 3
    assert {step.root for step in steps} == {steps[2].task_id}
    assert [step.parent_id for step in steps] == [steps[1].task_id, steps[2].task_id, None]


def test_a_chain_ends_with_the_step_that_failed() -> None:
    result = chain(probe.note.si("first step"), probe.fail.si("second step"), probe.note.si("third step"))()

    assert watch.ended(result.parent).outcome == "FAILED"
    assert watch.ended(result.parent.parent).outcome == "SUCCEEDED"
    assert [effects.count(f"{which} step") for which in ("first", "second", "third")] == [1, 1, 0]


def test_a_group_is_its_parts_results_in_order() -> None:
    result = group(probe.add.s(n, n) for n in range(6))()

    assert result.get(timeout=LIMIT) == [0, 2, 4, 6, 8, 10]
    assert Job.objects.filter(group_id=result.id).count() == 6


@pytest.mark.parametrize("parts", [1, 2, 12])
def test_a_chords_body_runs_once_with_all_results(parts: int) -> None:
    result = chord([probe.add.s(n, 1) for n in range(parts)])(probe.total.s())

    assert result.get(timeout=LIMIT) == sum(n + 1 for n in range(parts))
    assert watch.job(result).attempt == 1


def test_chords_that_end_all_at_once_run_each_body_once() -> None:
    bodies = [chord([probe.add.s(n, 1), probe.add.s(n, 2), probe.add.s(n, 3)])(probe.total.s()) for n in range(10)]

    assert [body.get(timeout=LIMIT) for body in bodies] == [3 * n + 6 for n in range(10)]


def test_a_chord_inside_a_chain_hands_its_result_on() -> None:
    result = chain(probe.add.s(1, 1), group(probe.add.s(10), probe.add.s(20)), probe.total.s(), probe.add.s(1000))()

    assert result.get(timeout=LIMIT) == 1034


def test_a_part_that_fails_fails_its_chord() -> None:
    result = chord([probe.add.s(1, 1), probe.fail.s("chord part")])(probe.total.s())

    # By its id only: Celery's own object raises the part's error where it sees that before the chord's.
    with pytest.raises(ChordError):
        probe.app.AsyncResult(result.id).get(timeout=LIMIT)
    assert effects.count("chord part") == 1


def test_a_canvas_inside_a_transaction_that_is_rolled_back_was_never_there() -> None:
    before = Job.objects.count()

    with rolled_back():
        chain(probe.note.si("rolled"), probe.note.si("rolled"))()
        group(probe.note.si("rolled") for _ in range(3))()
        chord([probe.note.si("rolled"), probe.note.si("rolled")])(probe.note.si("rolled"))

    assert Job.objects.count() == before


def test_links_run_after_a_success_and_only_then() -> None:
    good = probe.add.apply_async((1, 2), link=probe.add.s(10))
    bad = probe.fail.apply_async(("bad link",), link=probe.note.si("linked to a failure"))
    watch.all_ended([good, bad])

    child = wait_until(lambda: Job.objects.filter(parent_id=watch.job(good).task_id).first(), what="the link is a job")
    assert probe.app.AsyncResult(child.public_id).get(timeout=LIMIT) == 13
    assert effects.count("linked to a failure") == 0


def test_link_error_fires_once_when_all_retries_are_over() -> None:
    result = probe.fail_by_letters.apply_async(("linked errback",), link_error=probe.errback.s())
    job = watch.ended(result)

    assert (job.outcome, job.attempt) == ("DEAD_LETTER", 3)
    wait_until(lambda: result.id in _errbacks(), what="the errback has run")
    watch.none_unfinished()
    assert _errbacks().count(result.id) == 1


def test_a_dead_letter_holds_its_chain_until_a_person_sends_it_back(open_gate: Open) -> None:
    gate = uuid.uuid4().hex
    result = chain(probe.refuse_until.si("held chain", gate), probe.note.si("after the letter"))()
    job = watch.ended(result.parent)
    assert (job.outcome, effects.count("after the letter")) == ("DEAD_LETTER", 0)

    open_gate(gate)
    letters.run_again(DeadLetter.objects.open().get(job_id=job.seq), Decider("amy"), "the third party is back")

    assert result.get(timeout=LIMIT) == "after the letter"
    assert effects.count("after the letter") == 1


def test_a_dead_letter_holds_its_chord_until_a_person_sends_it_back(open_gate: Open) -> None:
    gate = uuid.uuid4().hex
    result = chord([probe.add.si(1, 1), probe.refuse_until.si("held chord", gate)])(probe.note.si("after the chord"))
    job = watch.ended(result.parent.results[1])
    assert job.outcome == "DEAD_LETTER"

    open_gate(gate)
    letters.run_again(DeadLetter.objects.open().get(job_id=job.seq), Decider("amy"), "the third party is back")

    assert result.get(timeout=LIMIT) == "after the chord"
    assert effects.count("after the chord") == 1


def test_what_a_task_sends_itself_is_a_child_of_its_job() -> None:
    result = probe.send_another.delay("child")

    child: Any = result.get(timeout=LIMIT)
    assert watch.ended(child).parent_id == watch.job(result).task_id
    assert effects.count("child") == 1


def _errbacks() -> list[str]:
    return [job for job, word in effects.rows() if word == "errback"]
