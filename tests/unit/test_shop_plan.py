"""What the demo's till will do is a function of its seed."""

from __future__ import annotations

from collections import Counter

import pytest

from tasks.demo import sandbox
from tasks.demo.plan import SPECIAL, Fate, plan
from tasks.jobs import data_sync, email_notify, fulfil_order, points_accrual, sms_notify
from tasks.queues import CONCURRENCY


def test_the_same_seed_plans_the_same_orders_and_another_seed_others() -> None:
    assert plan(50, seed=7) == plan(50, seed=7)
    assert plan(50, seed=7) != plan(50, seed=8)


@pytest.mark.parametrize("orders", [20, 21, 99, 300])
def test_from_twenty_orders_on_every_fate_occurs_and_most_orders_are_plain(orders: int) -> None:
    fates = Counter(basket.fate for basket in plan(orders, seed=1))

    assert {fates[fate] for fate in SPECIAL} == {max(1, orders // 100)}
    assert fates[Fate.PLAIN] >= orders // 2


@pytest.mark.parametrize("orders", [0, 1, 2, 5, 19])
def test_a_small_plan_has_as_many_orders_as_were_asked_for(orders: int) -> None:
    assert [basket.number for basket in plan(orders, seed=3)] == list(range(1, orders + 1))


def test_orders_placed_one_by_one_have_special_fates_now_and_then() -> None:
    fates = Counter(basket.fate for seed in range(1000) for basket in plan(1, seed))

    assert 50 < sum(fates[fate] for fate in SPECIAL) < 150


def test_what_fails_a_few_times_recovers_before_its_retries_are_used_up() -> None:
    for job in (sms_notify, email_notify, data_sync):
        assert job.policy.max_retries >= sandbox.FLAKY_CALLS


def test_every_job_type_has_a_queue_of_its_own_with_its_concurrency() -> None:
    jobs = (sms_notify, email_notify, data_sync, points_accrual, fulfil_order)

    assert sorted(job.queue for job in jobs) == sorted(CONCURRENCY)
    assert (CONCURRENCY["sms"], CONCURRENCY["data_sync"]) == (8, 32)
