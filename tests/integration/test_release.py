"""A job that is held for review has a way out, and only that one has it."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from celeriac.ledger import transitions
from celeriac.ledger.rows import Why
from celeriac.models import History, Job, Live
from celeriac.states import ParkedReason, Status
from tests.support import letters

pytestmark = pytest.mark.django_db


def held(reason: ParkedReason) -> Job:
    job = letters.accept()
    claimed = letters.claim(job, letters.worker())
    assert transitions.shift("held", [claimed.ref], Why("test", "its process died"), parked=reason)
    return Job.objects.with_status().get(pk=job.pk)


def test_a_job_held_for_review_runs_again_with_who_and_why_in_its_history() -> None:
    job = held(ParkedReason.REVIEW)
    call_command("celeriac", "release", job.public_id, "--reason", "the payment was looked up")
    assert Job.objects.with_status().get(pk=job.pk).status is Status.PENDING
    assert History.objects.filter(job=job).last().reason == "the payment was looked up"


def test_the_old_run_is_refused_from_then_on_and_the_person_is_told() -> None:
    job = letters.accept()
    on = letters.worker()
    claimed = letters.claim(job, on)
    assert transitions.shift("held", [claimed.ref], Why("test", "stalled", on.pk), parked=ParkedReason.REVIEW)
    out = StringIO()

    call_command("celeriac", "release", job.public_id, "--reason", "it did nothing yet", stdout=out)

    assert "may still be at work" in out.getvalue()
    assert Live.objects.get(job=job).fence > claimed.ref.fence
    assert History.objects.filter(job=job).last().event == "released"
    with pytest.raises(AssertionError, match="refused"):
        letters.settle(claimed, on)
    assert Job.objects.with_status().get(pk=job.pk).status is Status.PENDING


@pytest.mark.parametrize("reason", [ParkedReason.SWITCH, ParkedReason.NO_HANDLER])
def test_what_is_held_for_another_reason_is_not_released_by_hand(reason: ParkedReason) -> None:
    job = held(reason)
    with pytest.raises(CommandError, match="isn't held for review"):
        call_command("celeriac", "release", job.public_id, "--reason", "impatient")
    assert Job.objects.with_status().get(pk=job.pk).status is Status.PARKED


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(CommandError, match="nobody"):
        call_command("celeriac", "release", "nobody", "--reason", "x")
