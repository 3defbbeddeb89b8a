"""A job that is held for review has a way out, and only that one has it."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from celeriac.ledger import transitions
from celeriac.ledger.rows import Why
from celeriac.models import History, Job
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


@pytest.mark.parametrize("reason", [ParkedReason.SWITCH, ParkedReason.NO_HANDLER])
def test_what_is_held_for_another_reason_is_not_released_by_hand(reason: ParkedReason) -> None:
    job = held(reason)
    with pytest.raises(CommandError, match="isn't held for review"):
        call_command("celeriac", "release", job.public_id, "--reason", "impatient")
    assert Job.objects.with_status().get(pk=job.pk).status is Status.PARKED


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(CommandError, match="nobody"):
        call_command("celeriac", "release", "nobody", "--reason", "x")
