"""The till enqueues with the order or not at all, and the audit finds what is lost or done twice."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from django.utils import timezone

from celeriac import Job
from celeriac.redaction import redactor
from celeriac.states import Status
from tasks.demo.orders import Placed, audit, place
from tasks.demo.plan import Fate, plan
from tasks.demo.stockroom import planted_secrets
from tasks.models import Ask, Effect, Order

pytestmark = pytest.mark.django_db

ORDERS, SEED = 22, 5


@pytest.fixture
def placed() -> Placed:
    return place(ORDERS, SEED)


def act(asks: list[Ask]) -> None:
    """What the asked jobs do when all goes well."""
    for ask in asks:
        Effect.count(ask.job_id, ask.kind)


def allowed() -> list[Ask]:
    return list(Ask.objects.filter(allowed=1))


def test_every_committed_order_has_its_five_jobs_and_a_rolled_back_one_has_none(placed: Placed) -> None:
    committed = sum(basket.fate is not Fate.ROLLED_BACK for basket in plan(ORDERS, SEED))

    assert placed["orders"] == Order.objects.count() == committed
    assert placed["enqueued"] == Job.objects.count() == 5 * committed
    assert Counter(Job.objects.values_list("biz_id", flat=True)) == dict.fromkeys(
        Order.objects.values_list("number", flat=True), 5
    )
    forbidden = Ask.objects.filter(batch=placed["batch"]).exclude(job_id__in=Job.objects.values("task_id"))
    assert {ask.allowed for ask in forbidden} == {0}
    assert forbidden.count() == 5 * placed["rolled_back"]


def test_a_job_that_was_called_off_is_cancelled_before_it_is_due(placed: Placed) -> None:
    assert Job.objects.in_status(Status.CANCELLED).count() == 1


def test_the_same_seed_places_the_same_orders_again(placed: Placed) -> None:
    again = place(ORDERS, SEED)

    first, second = (
        list(Order.objects.filter(batch=batch).order_by("pk").values_list("customer", "product", "quantity"))
        for batch in (placed["batch"], again["batch"])
    )
    assert first == second
    assert {**placed, "batch": 0} == {**again, "batch": 0}


def test_what_nobody_did_and_nobody_holds_is_lost(placed: Placed) -> None:
    assert audit() == {"lost": len(allowed()), "duplicated": 0}

    act(allowed()[1:])

    assert audit() == {"lost": 1, "duplicated": 0}


def test_what_a_dead_letter_holds_is_not_lost(placed: Placed) -> None:
    held, *rest = allowed()
    act(rest)
    Job.objects.filter(task_id=held.job_id).update(outcome=Status.DEAD_LETTER, ended_at=timezone.now())

    assert audit() == {"lost": 0, "duplicated": 0}


def test_a_success_without_an_effect_is_lost(placed: Placed) -> None:
    liar, *rest = allowed()
    act(rest)
    Job.objects.filter(task_id=liar.job_id).update(outcome=Status.SUCCEEDED, ended_at=timezone.now())

    assert audit()["lost"] == 1


def test_an_execution_too_many_is_a_duplicate(placed: Placed) -> None:
    act(allowed())
    act(allowed()[:2])

    assert audit() == {"lost": 0, "duplicated": 2}


def test_a_job_that_was_rolled_back_or_called_off_may_not_act_at_all(placed: Placed) -> None:
    act(allowed())
    act(list(Ask.objects.filter(allowed=0)[:1]))

    assert audit() == {"lost": 0, "duplicated": 1}


def test_one_batch_is_audited_without_the_others(placed: Placed) -> None:
    act(allowed())
    later = place(20, SEED)

    assert audit(placed["batch"])["lost"] == 0
    assert audit(later["batch"])["lost"] > 0


def test_what_the_till_plants_in_arguments_is_what_the_redactor_masks(placed: Placed) -> None:
    payloads = [job.payload for job in Job.objects.all()]
    planted = {secret for secret in planted_secrets() if any(secret in payload for payload in payloads)}
    shown = [json.dumps(redactor().value(json.loads(payload))) + redactor().text(payload) for payload in payloads]

    assert len(planted) > 20
    assert not [secret for secret in planted if any(secret in text for text in shown)]
