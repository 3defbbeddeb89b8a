"""Each arrow of the table, by every way that the ledger makes it: once, from its own status, under its own fence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from celeriac.models import History, Live
from celeriac.outcomes import Ref
from celeriac.states import ARROWS, LIVE, Arrow, ParkedReason, Status
from tests.support import letters
from tests.support.ledger import at, now_of, ways

pytestmark = pytest.mark.django_db

Move = Callable[[Ref], bool]
MOVES = [
    pytest.param(step, move, id=f"{step.name}-{how}")
    for step in ARROWS
    if step.source is not None
    for how, move in ways(step)
]
every_move = pytest.mark.parametrize(("step", "move"), MOVES)
#: Staging looks for what is due by itself; every other move is given a job and a fence.
with_handle = pytest.mark.parametrize(
    ("step", "move"), [p for p in MOVES if not p.values[0].name.startswith("dispatched")]
)
to_live = pytest.mark.parametrize(("step", "move"), [p for p in MOVES if p.values[0].target in LIVE])


def source(step: Arrow) -> Status:
    assert step.source is not None
    return step.source


def test_the_ledger_has_a_way_for_every_arrow() -> None:
    births = {step.name for step in ARROWS if step.source is None}
    assert births == {"accepted", "accepted_parked"}
    assert [step.name for step in ARROWS if step.source is not None and not ways(step)] == []


def test_an_accepted_job_is_pending_under_fence_zero() -> None:
    assert now_of(letters.accept().pk) == (Status.PENDING, 0)


def test_a_job_accepted_with_a_reason_to_hold_it_is_parked_for_that_reason() -> None:
    job = letters.accept(parked_reason=ParkedReason.NO_HANDLER)
    assert now_of(job.pk) == (Status.PARKED, 0)
    assert Live.objects.get(pk=job.pk).parked_reason == ParkedReason.NO_HANDLER


@every_move
def test_it_leads_where_the_table_says_and_happens_once(step: Arrow, move: Move) -> None:
    ref = at(source(step))

    assert move(ref)

    after = now_of(ref.job)
    assert after[0] is step.target
    if step.source is not step.target:
        assert not move(ref), "it happened twice"
    assert now_of(ref.job) == after


@every_move
def test_the_fence_is_raised_exactly_where_the_table_says_so(step: Arrow, move: Move) -> None:
    ref = at(source(step))
    move(ref)
    assert now_of(ref.job)[1] == ref.fence + int(step.raises_fence)


@with_handle
def test_it_is_refused_under_any_fence_but_the_jobs_own(step: Arrow, move: Move) -> None:
    ref = at(source(step))
    for fence in (ref.fence - 1, ref.fence + 1, ref.fence + 1000):
        assert not move(Ref(ref.job, fence))
    assert now_of(ref.job) == (step.source, ref.fence)


@every_move
def test_it_is_refused_from_every_other_status(step: Arrow, move: Move) -> None:
    for status in Status:
        also_staged = step.name.startswith("dispatched") and status in (Status.PENDING, Status.RETRY)
        if status is step.source or also_staged:
            continue
        ref = at(status)
        assert not move(ref), f"{step.name} from {status}"
        assert now_of(ref.job) == (status, ref.fence)


@every_move
def test_it_leaves_a_line_of_history_exactly_where_it_is_exceptional(step: Arrow, move: Move) -> None:
    ref = at(source(step))
    History.objects.all().delete()

    move(ref)

    told = [(row.event, row.source, row.target, row.job_id) for row in History.objects.all()]
    assert told == ([(step.name, step.source, step.target, ref.job)] if step.exceptional else [])


@to_live
def test_what_no_longer_applies_is_cleared(step: Arrow, move: Move) -> None:
    """A worker or a deadline left behind would have the rescue take a job that waits."""
    ref = at(source(step))
    move(ref)

    live = Live.objects.get(pk=ref.job)

    running = live.status == Status.RUNNING
    assert (live.worker is not None, live.claimed_at is not None, live.child_pid is not None) == (running,) * 3
    assert (live.parked_reason is not None) == (live.status == Status.PARKED)
    if not running:
        assert live.deadline is None
        assert (live.dispatch_term is not None) == (live.status == Status.DISPATCHED)
