"""What becomes of a job is decided by values."""

from __future__ import annotations

import random

import pytest

from celeriac import Backoff, GiveUp, Policy, RetryLater, ToDeadLetter
from celeriac.settle.decide import exhausted, on_failure, on_lost
from celeriac.states import ParkedReason, Status, arrow

rng = random.Random(1)
BROKEN = ValueError("broken")


def test_without_a_policy_a_failure_ends_the_job_as_in_celery() -> None:
    decision = on_failure(None, BROKEN, 0, rng)
    assert (decision.status, decision.arrow) == (Status.FAILED, "failed")


def test_with_a_policy_a_failure_is_tried_again_after_its_backoff() -> None:
    policy = Policy(max_retries=2, backoff=Backoff(initial=10, factor=3, jitter=0))

    decisions = [on_failure(policy, BROKEN, n, rng) for n in (0, 1)]

    assert [(d.status, d.arrow, d.delay, d.retry_count) for d in decisions] == [
        (Status.RETRY, "retried", 10, 1),
        (Status.RETRY, "retried", 30, 2),
    ]


def test_a_policy_that_names_nothing_has_five_retries_of_a_minute_and_more() -> None:
    decisions = [on_failure(Policy(), BROKEN, n, rng) for n in range(6)]

    assert [d.status for d in decisions] == [Status.RETRY] * 5 + [Status.DEAD_LETTER]
    assert 60 <= decisions[0].delay <= 90
    assert 960 <= decisions[4].delay <= 990


def test_the_last_failure_waits_for_a_person() -> None:
    decision = on_failure(Policy(max_retries=2), BROKEN, 2, rng)
    assert (decision.status, decision.arrow) == (Status.DEAD_LETTER, "dead_lettered")
    assert decision.reason == "no retry left after 2"


def test_the_last_failure_ends_the_job_where_the_policy_wants_no_hand() -> None:
    decision = on_failure(Policy(max_retries=0, on_exhausted="fail"), BROKEN, 0, rng)
    assert (decision.status, decision.arrow) == (Status.FAILED, "failed")
    assert decision.reason == "failed, and its policy has no retries"


@pytest.mark.parametrize("policy", [None, Policy(), Policy(max_retries=0)])
def test_what_a_task_raises_to_steer_goes_before_every_policy(policy: Policy | None) -> None:
    assert on_failure(policy, GiveUp("sold out"), 0, rng).status is Status.FAILED
    assert on_failure(policy, ToDeadLetter("look"), 0, rng).status is Status.DEAD_LETTER


def test_a_task_names_its_own_delay_and_spends_a_retry() -> None:
    decision = on_failure(Policy(max_retries=3), RetryLater(7.5, "limited"), 2, rng)
    assert (decision.status, decision.delay, decision.retry_count) == (Status.RETRY, 7.5, 3)
    assert decision.reason == "limited"


def test_a_delay_below_zero_is_now() -> None:
    assert on_failure(Policy(), RetryLater(-5), 0, rng).delay == 0


def test_asking_for_later_for_ever_ends_with_a_person() -> None:
    assert on_failure(Policy(max_retries=3), RetryLater(1), 3, rng).status is Status.DEAD_LETTER
    assert on_failure(None, RetryLater(1), 4, rng).status is Status.RETRY
    assert on_failure(None, RetryLater(1), 5, rng).status is Status.DEAD_LETTER


def test_a_steering_error_says_why() -> None:
    assert on_failure(None, GiveUp("sold out"), 0, rng).reason == "sold out"
    assert on_failure(None, ToDeadLetter("bad address"), 0, rng).reason == "bad address"


@pytest.mark.parametrize(
    ("answer", "status", "by", "parked"),
    [
        ("again", Status.RETRY, "lost", None),
        ("review", Status.PARKED, "held", ParkedReason.REVIEW),
        ("fail", Status.FAILED, "failed", None),
    ],
)
def test_a_lost_process_is_answered_as_the_policy_says(
    answer: str, status: Status, by: str, parked: ParkedReason | None
) -> None:
    decision = on_lost(answer, 1, 3, "child 7 was killed by signal 9")
    assert (decision.status, decision.arrow, decision.parked) == (status, by, parked)
    assert decision.reason == "child 7 was killed by signal 9"


def test_a_lost_process_spends_no_retry() -> None:
    assert on_lost("again", 1, 3, "x").retry_count is None


@pytest.mark.parametrize("answer", ["again", "review", "fail"])
def test_the_third_death_is_a_dead_letter_with_its_cause_whatever_the_policy(answer: str) -> None:
    decision = on_lost(answer, 3, 3, "child 7 was killed by signal 11")
    assert decision.status is Status.DEAD_LETTER
    assert decision.reason == "its process died 3 times; child 7 was killed by signal 11"


def test_every_decision_names_an_arrow_that_leads_where_it_says() -> None:
    decisions = [
        *(on_failure(p, e, n, rng) for p in (None, Policy(), Policy(on_exhausted="fail"))
          for e in (BROKEN, GiveUp(), ToDeadLetter(), RetryLater(1)) for n in (0, 5)),
        *(on_lost(answer, n, 3, "x") for answer in ("again", "review", "fail") for n in (1, 3)),
        exhausted(Policy(), 0),
    ]  # fmt: skip
    for decision in decisions:
        assert (arrow(decision.arrow).source, arrow(decision.arrow).target) == (Status.RUNNING, decision.status)
