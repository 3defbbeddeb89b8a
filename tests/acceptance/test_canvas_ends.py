"""Chords, chains and errbacks of jobs that end without their run: killed, revoked, expired, ignored, or settled from the spool."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from celery import chain, chord
from celery.exceptions import ChordError

from celeriac.models import DeadLetter, History
from celeriac.states import Status
from celeriac.triage import letters
from celeriac.triage.letters import Decider
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

LIMIT = 60.0


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader and a worker."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 3)


def _propagated(result: Any) -> int:
    return History.objects.filter(job_id=watch.job(result).seq, event="propagated").count()


def _alone(result: Any) -> Any:
    """The result by its id only: Celery's own object would raise its parent's failure at once."""
    return probe.app.AsyncResult(result.id)


def _errbacks_of(result: Any) -> int:
    return effects.rows().count((result.id, "errback"))


def test_who_waits_for_the_end_of_a_chain_learns_that_a_step_has_failed() -> None:
    result = chain(probe.add.s(1, 2), probe.fail.si("a step in the middle"), probe.add.s(1))()

    with pytest.raises(Exception, match="no"):
        _alone(result).get(timeout=LIMIT)


def test_a_part_that_is_killed_by_its_hard_limit_fails_its_chord() -> None:
    result = chord([probe.add.si(1, 1), probe.overrun_and_fail.si("chord part killed")])(probe.total.s())

    with pytest.raises(ChordError):
        _alone(result).get(timeout=LIMIT)
    assert _propagated(result.parent.results[1]) == 1


def test_the_errback_of_a_job_that_is_killed_by_its_hard_limit_runs_once() -> None:
    result = probe.overrun.apply_async(("killed with an errback",), link_error=probe.errback.s())
    job = watch.ended(result)

    assert job.outcome == "DEAD_LETTER"
    wait_until(lambda: _errbacks_of(result) == 1, what="the errback has run")
    watch.none_unfinished()
    assert _errbacks_of(result) == 1


def test_a_part_that_is_revoked_before_it_runs_fails_its_chord() -> None:
    result = chord([probe.add.si(1, 1), probe.note.si("revoked part").set(countdown=600)])(probe.total.s())
    part = result.parent.results[1]

    part.revoke()

    with pytest.raises(ChordError):
        _alone(result).get(timeout=LIMIT)
    assert effects.count("revoked part") == 0


def test_a_part_that_expires_fails_its_chord(fleet: Fleet) -> None:
    late = probe.note.si("expired part").set(queue="nobody consumes this", expires=1)
    result = chord([probe.add.si(1, 1), late])(probe.total.s())

    wait_until(lambda: watch.job(result.parent.results[1]).outcome == Status.CANCELLED, what="it has expired")
    consumer = fleet.worker("nobody consumes this", 1)
    with pytest.raises(ChordError):
        _alone(result).get(timeout=LIMIT)
    assert consumer.stop() == 0


def test_a_dead_letter_that_is_ignored_fails_its_chord_and_its_chain() -> None:
    part = chord([probe.add.si(1, 1), probe.refuse_until.si("ignored part", uuid.uuid4().hex)])(probe.total.s())
    step = chain(probe.refuse_until.si("ignored step", uuid.uuid4().hex), probe.note.si("after the ignored"))()
    for result in (part.parent.results[1], step.parent):
        job = watch.ended(result)
        assert job.outcome == "DEAD_LETTER"
        letters.ignore(DeadLetter.objects.open().get(job_id=job.seq), Decider("amy"), "the order was cancelled")

    with pytest.raises(ChordError):
        _alone(part).get(timeout=LIMIT)
    with pytest.raises(Exception, match="ignored"):
        _alone(step).get(timeout=LIMIT)
    assert effects.count("after the ignored") == 0
