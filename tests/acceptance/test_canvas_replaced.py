"""A job that is replaced by a canvas is the same job until the canvas ends; a job that says how far it is is heard."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import ChordError

from celeriac.models import Job
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

LIMIT = 60.0


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader and a worker."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 3)


def _alone(result: Any) -> Any:
    return probe.app.AsyncResult(result.id)


@pytest.mark.parametrize(
    ("canvas", "comes_to"),
    [
        pytest.param(probe.add.s(1, 2), 3, id="task"),
        pytest.param(probe.add.s(1, 2) | probe.add.s(10) | probe.add.s(100), 113, id="chain"),
        pytest.param(chord([probe.add.s(1, 1), probe.add.s(2, 2)], probe.total.s()), 6, id="chord"),
        pytest.param(
            probe.add.s(1, 1) | chord([probe.add.s(1), probe.add.s(2)], probe.total.s()), 7, id="chain of chord"
        ),
    ],
)
def test_its_id_has_the_result_of_what_took_its_place(canvas: Any, comes_to: int) -> None:
    result = probe.replace_by.delay(canvas)

    assert result.get(timeout=LIMIT) == comes_to
    job = watch.job(result)
    assert (job.outcome, Job.objects.filter(task_id=job.task_id).count()) == ("SUCCEEDED", 1)
    watch.none_unfinished()


def test_replaced_by_a_group_it_has_the_results_of_all() -> None:
    result = probe.replace_by.delay(group(probe.add.s(1, 1), probe.add.s(2, 2)))
    assert result.get(timeout=LIMIT) == [2, 4]


def test_a_chain_goes_on_behind_what_took_a_steps_place() -> None:
    result = chain(probe.replace_by.si(probe.add.s(1, 2) | probe.add.s(10)), probe.add.s(100))()
    assert result.get(timeout=LIMIT) == 113


def test_a_chord_waits_for_what_took_a_parts_place() -> None:
    result = chord([probe.add.s(1, 1), probe.replace_by.si(probe.add.s(1, 2) | probe.add.s(10))])(probe.total.s())
    assert result.get(timeout=LIMIT) == 15


def test_it_fails_with_what_took_its_place() -> None:
    result = probe.replace_by.delay(probe.fail.si("in its place") | probe.add.s(10))

    with pytest.raises(Exception, match="no"):
        result.get(timeout=LIMIT)
    assert watch.job(result).outcome == "FAILED"
    watch.none_unfinished()


def test_it_fails_with_a_part_of_the_chord_that_took_its_place() -> None:
    result = probe.replace_by.delay(chord([probe.add.si(1, 1), probe.fail.si("a part in its place")], probe.total.s()))

    with pytest.raises(ChordError):
        result.get(timeout=LIMIT)
    assert watch.job(result).outcome == "FAILED"


def test_a_chord_around_it_fails_with_what_took_its_place() -> None:
    result = chord([probe.add.s(1, 1), probe.replace_by.si(probe.fail.si("around it") | probe.add.s(10))])(
        probe.total.s()
    )
    with pytest.raises(ChordError):
        _alone(result).get(timeout=LIMIT)


def test_ten_times_replaced_by_itself_it_ends_once_without_a_retry() -> None:
    result = probe.replace_by_itself.delay(10)

    assert result.get(timeout=LIMIT) == 0
    assert effects.count("replaced by itself") == 1


def test_how_far_it_is_can_be_asked_until_it_ends(open_gate: Callable[[str], None]) -> None:
    gate = uuid.uuid4().hex
    result = probe.report_progress.delay(gate)

    wait_until(lambda: result.state == "PROGRESS", what="it has said so")
    assert result.info == {"done": 3, "of": 10}

    open_gate(gate)
    assert result.get(timeout=LIMIT) == "done"
    assert result.state == "SUCCESS"
