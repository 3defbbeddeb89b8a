"""What a job's story says, and why a job waits."""

from __future__ import annotations

import pytest
from django.utils import translation

from celeriac.guard import switches
from celeriac.ledger import transitions
from celeriac.ledger.rows import Why
from celeriac.models import Job, Lease, Live, Worker
from celeriac.observe.story import _EVENTS, Entry, story, why_waiting
from celeriac.outcomes import Ref
from celeriac.states import ARROWS, Arrow, ParkedReason, Status
from celeriac.triage import letters as triage
from celeriac.triage.letters import Decider
from tests.support import letters

pytestmark = pytest.mark.django_db


def told(job: Job) -> list[Entry]:
    return story(Job.objects.get(pk=job.pk))


def whats(job: Job) -> list[str]:
    return [entry.what for entry in told(job)]


def waits(job: Job) -> str:
    return why_waiting(Job.objects.get(pk=job.pk))


def test_a_job_that_went_well_is_told_by_its_timestamps() -> None:
    on = letters.worker()
    job = letters.accept(biz_id="order-42")
    letters.settle(letters.claim(job, on), on)

    assert whats(job) == ["accepted", "started", "succeeded"]
    assert told(job)[0].detail.endswith("order-42")
    assert told(job)[1].worker == f"sms1@host ({str(on.pk)[:8]})"
    assert waits(job) == ""


def test_every_failed_attempt_is_told_before_what_it_led_to() -> None:
    failures = [letters.failure("SHOP_GATEWAY_503", word) for word in ("one", "two", "three")]
    letter = letters.dead_letter(failures=failures)

    entries = told(letter.job)

    assert [entry.what for entry in entries] == [
        "accepted",
        "attempt 1 failed",
        "will be tried again",
        "attempt 2 failed",
        "will be tried again",
        "started",
        "attempt 3 failed",
        "put into the dead letters",
    ]
    assert [entry.detail.rpartition(" ")[2] for entry in entries if "failed" in entry.what] == ["one", "two", "three"]
    assert entries[-1].detail == "RUNNING → DEAD_LETTER"  # the failure above has said why


def test_a_decision_is_told_once_with_who_and_why() -> None:
    letter = letters.dead_letter(args=[1])
    triage.edit_and_redeliver(letter, Decider("amy"), "wrong number", [2], {})

    last = [entry for entry in told(letter.job) if entry.actor == "amy"]

    assert [(entry.what, entry.detail) for entry in last] == [
        ("decided: edit and send back", "wrong number; changed: args")
    ]


def test_details_are_masked_whoever_wrote_them() -> None:
    letter = letters.dead_letter(failures=[letters.failure(message="card 4111 1111 1111 1111 refused")])
    triage.ignore(letter, Decider("amy"), "customer called from +8613812345678")

    said = " ".join(entry.detail for entry in told(letter.job))

    assert "1111 1111" not in said
    assert "13812345678" not in said


def test_the_story_is_told_in_the_readers_language() -> None:
    job = letters.accept()
    with translation.override("zh-hans"):
        assert whats(job) == ["已接受"]


def test_a_job_that_is_not_due_says_when_it_is() -> None:
    assert waits(letters.accept(delay=3600)).startswith("Not due until ")


def test_a_retry_that_is_not_due_says_when_it_is() -> None:
    on = letters.worker()
    job = letters.accept()
    letters.settle(letters.claim(job, on), on, letters.failure(), Status.RETRY)
    Live.objects.filter(job=job).update(run_at="2100-01-01T00:00:00Z")

    assert waits(job).startswith("Retry 1 is due 2100-01-01")


def test_a_switch_that_is_off_is_named_with_who_and_why() -> None:
    job = letters.accept()
    switches.turn("queue", letters.QUEUE, on=False, actor="amy", reason="gateway is being moved")

    assert "Queue sms is switched off since" in waits(job)
    assert "by amy: gateway is being moved" in waits(job)


def test_a_queue_without_a_worker_is_named() -> None:
    job = letters.accept()
    letters.worker(queues=["email"])
    assert "No live worker consumes queue sms." in waits(job)


def test_a_type_that_no_worker_knows_is_named() -> None:
    job = letters.accept()
    letters.worker(tasks=["shop.other"])
    assert "No live worker of queue sms knows the type shop.sms.notify." in waits(job)


def test_a_fleet_without_a_scheduler_says_so() -> None:
    job = letters.accept()
    letters.worker()
    assert "No scheduler has ever led." in waits(job)
    letters.lease()
    Lease.objects.update(renewed_at="2020-01-01T00:00:00Z")
    assert "No scheduler has led since 2020-01-01" in waits(job)


def test_full_slots_are_told_from_free_ones() -> None:
    on = letters.worker(slots=1)
    letters.lease()
    job = letters.accept()
    assert "A slot is free" in waits(job)
    busy = letters.accept(priority=5)
    Live.objects.filter(job=job).update(run_at="2100-01-01T00:00:00Z")
    letters.claim(busy, on)
    Live.objects.filter(job=job).update(run_at="2020-01-01T00:00:00Z")
    assert "The only slot of queue sms is taken." in waits(job)


def test_a_dispatched_job_says_since_when_and_how_often() -> None:
    letters.worker()
    job = letters.accept()
    letters.dispatch(job)
    assert "(sent 1 time) and not claimed yet." in waits(job)


def test_a_dispatched_job_whose_workers_have_gone_says_so() -> None:
    letters.worker()
    job = letters.accept()
    letters.dispatch(job)
    Worker.objects.update(ended_at="2020-01-01T00:00:00Z")
    assert "No live worker consumes queue sms." in waits(job)


def test_a_suspect_says_why_and_how_it_runs_next() -> None:
    letters.worker()
    letters.lease()
    job = letters.accept()
    Live.objects.filter(job=job).update(suspicion=1)
    assert "1 worker was lost with it aboard. It runs next through a worker's own queue." in waits(job)
    Live.objects.filter(job=job).update(suspicion=2)
    assert "2 workers were lost with it aboard. It runs alone on a worker next" in waits(job)
    assert "It waits for a worker without a suspect." not in waits(job)


def test_a_suspect_that_waits_for_a_worker_without_one_says_so() -> None:
    on = letters.worker()
    letters.lease()
    letters.claim(letters.accept(), on)
    Live.objects.update(suspicion=1)
    job = letters.accept()
    Live.objects.filter(job=job).update(suspicion=2)
    assert waits(job).endswith("It waits for a worker without a suspect.")


def test_a_suspect_that_was_dispatched_names_the_worker_it_was_sent_to() -> None:
    on = letters.worker()
    job = letters.accept()
    letters.dispatch(job)
    Live.objects.filter(job=job).update(suspicion=2, worker=on.pk)
    assert waits(job).startswith(f"Sent to sms1@host ({str(on.pk)[:8]}) alone ")
    assert "2 workers were lost with it aboard." in waits(job)


@pytest.mark.parametrize("state", ["starting", "deaf", "wedged", "draining", "stopping"])
def test_a_queue_whose_workers_do_not_consume_says_who_and_why(state: str) -> None:
    job = letters.accept()
    letters.worker()
    Worker.objects.update(state=state)
    assert f"No worker consumes queue sms now: sms1@host ({state})." in waits(job)


def test_a_job_under_review_says_where_its_old_run_may_still_be_at_work() -> None:
    on = letters.worker()
    job = letters.accept()
    claimed = letters.claim(job, on)
    assert transitions.shift("held", [claimed.ref], Why("test", "stalled", on.pk), parked=ParkedReason.REVIEW)
    assert waits(job).endswith(f"Its old run may still be at work on sms1@host ({str(on.pk)[:8]}).")


@pytest.mark.parametrize("step", ARROWS, ids=lambda step: step.name)
def test_every_move_that_leaves_history_is_told_in_words(step: Arrow) -> None:
    assert not step.exceptional or step.name in _EVENTS


def test_a_running_job_says_where_and_since_when() -> None:
    on = letters.worker()
    job = letters.accept()
    letters.claim(job, on)
    assert waits(job).startswith(f"Running on sms1@host ({str(on.pk)[:8]}), process 4712, since ")


@pytest.mark.parametrize("reason", list(ParkedReason))
def test_a_parked_job_says_for_what(reason: ParkedReason) -> None:
    job = letters.accept()
    transitions.shift("parked", [Ref(job.pk, 0)], Why("test"), parked=reason)
    said = waits(job)
    assert said.startswith("Parked since ")
    assert len(said.partition(": ")[2]) > 10
    assert whats(job) == ["accepted", "parked"]


def test_a_job_that_expired_unseen_says_so() -> None:
    letters.worker()
    letters.lease()
    assert "is about to be cancelled" in waits(letters.accept(expires_in=-1.0))


def test_a_row_without_a_place_is_called_broken() -> None:
    job = letters.accept()
    Live.objects.filter(job=job).delete()
    assert "broken" in waits(job)


def test_a_job_that_ended_between_two_looks_waits_for_nothing() -> None:
    job = letters.accept()
    seen = Job.objects.get(pk=job.pk)
    on = letters.worker()
    letters.settle(letters.claim(job, on), on)
    assert why_waiting(seen) == ""
