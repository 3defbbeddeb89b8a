"""The ledger's statements for many jobs at once, and for several sessions at once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from django.db import connections, transaction
from django.utils import timezone

from celeriac import clock
from celeriac.asked import NewJob
from celeriac.ledger import queries, transitions
from celeriac.models import DeadLetter, ErrorEvent, History, Job, Live, Worker
from celeriac.models.live import RESCUED_PRIORITY
from celeriac.outcomes import Ref
from celeriac.states import Status
from celeriac.triage import letters as triage
from celeriac.triage.letters import Decider
from tests.support import letters
from tests.support.ledger import PID, WHY, at, incarnation, now_of, outcome, settle

T = TypeVar("T")
pytestmark = pytest.mark.django_db


def asked(number: int, **fields: object) -> NewJob:
    return NewJob(uuid.UUID(int=number), letters.TYPE, letters.QUEUE, f'{{"args":[{number}]}}', **fields)  # type: ignore[arg-type]


def stage(limit: int = 1000, *, paused: tuple[str, ...] = ()) -> list[Ref]:
    letters.lease()
    return [staged.ref for staged in transitions.stage(letters.TERM, {letters.QUEUE: limit}, paused)]


def claim(refs: list[Ref], pid: int = PID) -> list[Ref]:
    return [claimed.ref for claimed in transitions.claim(refs, [None] * len(refs), incarnation().pk, pid)]


# ---- accept ----------------------------------------------------------------------------------------------------------


def test_many_jobs_are_accepted_in_one_statement_with_all_that_was_asked() -> None:
    at_noon = timezone.now() + timedelta(hours=12)
    jobs = [
        asked(1, priority=9, biz_id="order-1", time_limit=30.0),
        asked(2, run_at=at_noon, expires_at=at_noon + timedelta(hours=1)),
        asked(3, retry_count=2, alias="mine"),
    ]

    assert transitions.accept(jobs) == {job.task_id for job in jobs}

    one, two, three = (Job.objects.select_related("live").get(task_id=job.task_id) for job in jobs)
    assert (one.priority, one.live.priority, one.biz_id, one.live.time_limit) == (9, 9, "order-1", 30.0)
    assert (two.live.run_at, two.live.expires_at) == (at_noon, at_noon + timedelta(hours=1))
    assert (three.alias, three.retry_count, three.live.retry_count) == ("mine", 2, 2)


def test_of_many_accepted_together_those_that_exist_already_are_left_as_they_are() -> None:
    transitions.accept([asked(1)])
    (ref,) = stage()

    new = transitions.accept([asked(1, priority=9), asked(2), asked(3)])

    assert new == {uuid.UUID(int=2), uuid.UUID(int=3)}
    assert now_of(ref.job) == (Status.DISPATCHED, 0)
    assert Job.objects.get(pk=ref.job).priority == 0


def test_a_task_id_is_accepted_once_however_often_it_comes() -> None:
    assert transitions.accept([asked(1)]) == {uuid.UUID(int=1)}
    assert transitions.accept([asked(1)]) == set()
    assert Job.objects.count() == Live.objects.count() == 1


def test_nothing_asked_is_nothing_written() -> None:
    assert transitions.accept([]) == set()


# ---- stage -----------------------------------------------------------------------------------------------------------


def test_higher_priority_goes_first_and_then_who_was_due_first() -> None:
    transitions.accept([asked(n, priority=priority, delay=-n) for n, priority in enumerate([0, 5, 9, 5, 0])])

    order = [Job.objects.get(pk=ref.job).task_id.int for one in range(5) for ref in stage(1)]

    assert order == [2, 3, 1, 4, 0]


def test_no_more_than_the_room_of_its_queue_is_staged() -> None:
    transitions.accept([asked(n) for n in range(10)])
    assert len(stage(3)) == 3
    assert len(stage(4)) == 4
    assert len(stage()) == 3


def test_each_queue_has_a_room_of_its_own() -> None:
    for queue in ("sms", "email"):
        for _ in range(3):
            letters.accept(queue=queue)
    letters.lease()
    staged = transitions.stage(letters.TERM, {"sms": 2, "email": 1}, ())
    assert sorted(one.queue for one in staged) == ["email", "sms", "sms"]


def test_what_is_scheduled_for_later_waits_without_being_in_the_way() -> None:
    transitions.accept([asked(n, delay=3600.0, priority=9) for n in range(5)] + [asked(9)])

    assert [Job.objects.get(pk=ref.job).task_id.int for ref in stage(1)] == [9]
    assert stage() == []
    with clock.shift(3601):
        assert len(stage()) == 5


def test_a_paused_type_and_an_expired_job_are_passed_over() -> None:
    transitions.accept([asked(1, expires_in=10.0), asked(2)])
    letters.accept(task_type="shop.other")
    with clock.shift(11):
        staged = stage(paused=("shop.other",))
    assert [Job.objects.get(pk=ref.job).task_id.int for ref in staged] == [2]


def test_a_leader_that_was_replaced_stages_and_sends_nothing() -> None:
    transitions.accept([asked(1)])
    letters.lease()
    assert transitions.stage(letters.TERM - 1, {letters.QUEUE: 10}, ()) == []
    (ref,) = stage()
    assert transitions.again(letters.TERM - 1, everything=True) == []
    assert now_of(ref.job) == (Status.DISPATCHED, 0)


def test_a_rescued_job_goes_before_every_priority_that_can_be_asked_for() -> None:
    ref = at(Status.RUNNING)
    transitions.shift("handed_back", [ref], WHY, priority=RESCUED_PRIORITY)
    transitions.accept([asked(n, priority=9) for n in range(3)])
    assert [one.job for one in stage(1)] == [ref.job]


# ---- sent again --------------------------------------------------------------------------------------------------------


def test_without_evidence_a_dispatched_job_is_sent_again_after_a_delay_that_doubles() -> None:
    (ref,) = [at(Status.DISPATCHED)]
    sent = []
    for seconds in range(0, 700, 10):
        with clock.shift(seconds):
            sent += [seconds for again in transitions.again(letters.TERM) if again.ref == ref]
    assert [later - earlier for earlier, later in zip([0, *sent], sent, strict=False)] == [30, 60, 120, 240]


def test_sending_again_keeps_the_fence_so_that_two_copies_can_claim_once() -> None:
    ref = at(Status.DISPATCHED)
    (again,) = transitions.again(letters.TERM, everything=True)
    assert again.ref == ref
    assert len(claim([ref])) == 1
    assert claim([again.ref]) == []


def test_a_new_leader_sends_what_an_older_term_staged_and_nobody_claimed() -> None:
    ref = at(Status.DISPATCHED)
    lease = letters.lease()
    assert transitions.again(letters.TERM) == []
    lease.term += 1
    lease.save()
    assert [one.ref for one in transitions.again(lease.term)] == [ref]
    assert transitions.again(lease.term) == []


# ---- claim -------------------------------------------------------------------------------------------------------------


def test_many_are_claimed_in_one_statement_each_under_its_next_fence() -> None:
    transitions.accept([asked(n) for n in range(5)])
    refs = stage()
    taken_back, stale = refs[0], Ref(refs[1].job, refs[1].fence + 7)
    transitions.shift("withdrawn", [taken_back], WHY)

    mine = claim([taken_back, stale, *refs[2:]])

    assert sorted(mine, key=lambda ref: ref.job) == [Ref(ref.job, ref.fence + 1) for ref in refs[2:]]
    assert [now_of(ref.job)[0] for ref in refs] == [Status.PENDING, Status.DISPATCHED, *[Status.RUNNING] * 3]


def test_a_claim_brings_the_payload_and_counts_the_attempt() -> None:
    transitions.accept([asked(7)])
    (claimed,) = transitions.claim(stage(), [None], incarnation().pk, PID)
    assert (claimed.payload, claimed.attempt, claimed.task_id) == ('{"args":[7]}', 1, uuid.UUID(int=7))


def test_an_incarnation_that_was_given_up_claims_nothing() -> None:
    ref = at(Status.DISPATCHED)
    worker = incarnation()
    worker.ended_at = timezone.now()
    worker.save()
    assert transitions.claim([ref], [None], worker.pk, PID) == []
    assert transitions.claim([ref], [None], uuid.uuid4(), PID) == []
    assert now_of(ref.job)[0] is Status.DISPATCHED


def test_an_expired_job_is_not_begun() -> None:
    transitions.accept([asked(1, expires_in=10.0)])
    refs = stage()
    with clock.shift(11):
        assert claim(refs) == []


def test_the_deadline_is_the_limit_of_the_call_or_else_of_the_task_and_the_grace() -> None:
    transitions.accept([asked(1, time_limit=5.0), asked(2), asked(3)])
    refs = sorted(stage(), key=lambda ref: ref.job)

    transitions.claim(refs, [60.0, 60.0, None], incarnation().pk, PID)

    lives = [Live.objects.get(pk=ref.job) for ref in refs]
    spans = [live.deadline and (live.deadline - live.claimed_at).total_seconds() for live in lives]
    assert spans == [35.0, 90.0, None]


# ---- settle ------------------------------------------------------------------------------------------------------------


def test_many_outcomes_of_every_kind_are_settled_in_one_call() -> None:
    names = ["succeeded", "retried", "failed", "cancelled", "dead_lettered", "held", "handed_back", "lost"]
    refs = [at(Status.RUNNING) for _ in names]

    taken = settle([outcome(name, ref) for name, ref in zip(names, refs, strict=True)])

    assert sorted(taken, key=lambda ref: ref.job) == refs
    assert [now_of(ref.job)[0] for ref in refs] == [
        Status.SUCCEEDED,
        Status.RETRY,
        Status.FAILED,
        Status.CANCELLED,
        Status.DEAD_LETTER,
        Status.PARKED,
        Status.PENDING,
        Status.RETRY,
    ]


def test_of_many_outcomes_those_that_come_too_late_are_refused_and_the_others_written() -> None:
    mine, lost = at(Status.RUNNING), at(Status.RUNNING)
    transitions.shift("handed_back", [lost], WHY)
    send = asked(99)

    taken = settle([outcome("succeeded", lost, result='"late"', sends=(send,)), outcome("retried", mine)])

    assert taken == [mine]
    assert now_of(lost.job)[0] is Status.PENDING
    assert Job.objects.get(pk=lost.job).result is None
    assert not Job.objects.filter(task_id=send.task_id).exists(), "a refused success sent its links"


def test_what_a_success_sends_is_accepted_with_it_and_once() -> None:
    ref, send = at(Status.RUNNING), asked(99)
    assert settle([outcome("succeeded", ref, result='"done"', sends=(send,))]) == [ref]
    assert settle([outcome("succeeded", ref, result='"twice"', sends=(send,))]) == []
    assert Job.objects.get(pk=ref.job).result == '"done"'
    assert Job.objects.filter(task_id=send.task_id).count() == 1


def test_an_outcome_of_another_incarnation_is_refused() -> None:
    ref = at(Status.RUNNING)
    assert settle([outcome("succeeded", ref)], uuid.uuid4()) == []
    assert now_of(ref.job)[0] is Status.RUNNING


def test_for_a_dead_child_only_what_it_claimed_is_settled() -> None:
    refs = [at(Status.DISPATCHED) for _ in range(2)]
    (mine,), (other,) = claim(refs[:1], pid=1), claim(refs[1:], pid=2)
    assert settle([outcome("lost", mine), outcome("lost", other)], only_child=1) == [mine]
    assert now_of(other.job)[0] is Status.RUNNING


def test_what_is_written_along_with_a_settle_is_gone_with_it() -> None:
    ref = at(Status.RUNNING)

    def along(_: object) -> None:
        raise RuntimeError("the counter's row is gone")

    with pytest.raises(RuntimeError), transaction.atomic():
        settle([outcome("dead_lettered", ref)], along=along)
    assert now_of(ref.job)[0] is Status.RUNNING
    assert not ErrorEvent.objects.exists()
    assert not DeadLetter.objects.exists()


def test_a_failure_is_explained_in_the_same_transaction_and_redacted_where_it_is_kept_for_people() -> None:
    ref = at(Status.RUNNING)
    said = letters.failure("PAY_CARD_REFUSED_402", "card 4111 1111 1111 1111 refused")

    settle([outcome("dead_lettered", ref, failure=said, args_repr="(42,)")])

    event, letter = ErrorEvent.objects.get(job_id=ref.job), DeadLetter.objects.get(job_id=ref.job)
    assert event.error_code == letter.error_code == "PAY_CARD_REFUSED_402"
    for kept in (event.message, event.traceback, letter.message, letter.traceback):
        assert "4111 1111" not in kept
    assert "4111 1111" not in History.objects.get(job_id=ref.job).reason
    assert (letter.fence, letter.attempts, letter.args_repr) == (ref.fence, 1, "(42,)")
    job = Job.objects.get(pk=ref.job)
    assert job.error == "shop.errors.Broken: card 4111 1111 1111 1111 refused"  # callers get what was raised
    assert (job.worker, job.attempt) == (incarnation().pk, 1)


@pytest.mark.parametrize("text", ["NUL \x00", "lone \ud800 surrogate", "x" * 100_000])
def test_no_text_of_a_failure_breaks_its_settle(text: str) -> None:
    ref = at(Status.RUNNING)
    from celeriac.settle.failure import describe

    assert settle([outcome("dead_lettered", ref, failure=describe(ValueError(text)), reason="")]) == [ref]


def test_a_retry_with_other_arguments_runs_with_them() -> None:
    ref = at(Status.RUNNING)
    settle([outcome("retried", ref, payload='{"args":[2]}', retry_count=1)])
    (claimed,) = transitions.claim(stage(), [None], incarnation().pk, PID)
    assert (claimed.payload, claimed.retry_count, claimed.attempt) == ('{"args":[2]}', 1, 2)


def test_a_loss_is_charged_to_its_job_and_spends_no_retry() -> None:
    ref = at(Status.RUNNING)
    settle([outcome("lost", ref, lost_by=1)])
    live = Live.objects.get(pk=ref.job)
    assert (live.lost_count, live.retry_count, live.priority) == (1, 0, RESCUED_PRIORITY)


def test_a_redelivered_job_begins_anew_and_its_earlier_messages_stay_stale() -> None:
    letter = letters.dead_letter()
    before = Job.objects.get(pk=letter.job_id).fence
    triage.run_again(letter, Decider("amy"), "fixed")

    live = Live.objects.get(pk=letter.job_id)
    assert (live.fence, live.retry_count, live.lost_count, live.attempt) == (before + 1, 0, 0, 1)
    (ref,) = stage()
    assert claim([Ref(ref.job, fence) for fence in range(before + 1)]) == []
    assert claim([ref]) == [Ref(ref.job, ref.fence + 1)]


# ---- demands -----------------------------------------------------------------------------------------------------------


def test_demand_counts_the_free_slots_of_those_who_live_and_consume_the_queue() -> None:
    letters.worker("sms2@host", slots=8)
    letters.worker("email@host", queues=["email"], slots=4)
    gone = letters.worker("sms3@host", slots=16)
    gone.ended_at = timezone.now()
    gone.save()
    stopping = letters.worker("sms4@host", slots=32, queues=["sms", "email"])
    stopping.state = Worker.State.STOPPING
    stopping.save()
    at(Status.RUNNING)  # on sms1@host, which has two slots
    at(Status.DISPATCHED)
    letters.accept()

    assert [(demand.queue, demand.free_slots, demand.dispatched) for demand in queries.demands()] == [("sms", 9, 1)]


def test_a_queue_with_nothing_waiting_and_nothing_dispatched_makes_no_demand() -> None:
    at(Status.RUNNING), at(Status.PARKED), at(Status.SUCCEEDED)
    assert queries.demands() == []


# ---- several sessions at once --------------------------------------------------------------------------------------------


def at_once(*calls: Callable[[], T]) -> list[T]:
    """What the calls return when they start together, each on a database session of its own."""
    start = threading.Barrier(len(calls))
    found: list[T | BaseException] = [RuntimeError("never ran")] * len(calls)

    def run(number: int, call: Callable[[], T]) -> None:
        try:
            start.wait()
            found[number] = call()
        except BaseException as exc:
            found[number] = exc
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for value in found:
        if isinstance(value, BaseException):
            raise value
    return found  # type: ignore[return-value]


@pytest.mark.django_db(transaction=True)
def test_of_two_copies_of_a_message_claimed_at_once_one_wins() -> None:
    refs = [at(Status.DISPATCHED) for _ in range(30)]
    worker = incarnation().pk
    for ref in refs:
        claims = at_once(*[lambda r=ref: transitions.claim([r], [None], worker, PID)] * 3)  # type: ignore[misc]
        assert sorted(len(claim) for claim in claims) == [0, 0, 1]


@pytest.mark.django_db(transaction=True)
def test_an_outcome_and_a_rescue_at_once_leave_one_of_both() -> None:
    refs = [at(Status.RUNNING) for _ in range(30)]
    worker = incarnation().pk
    for ref in refs:
        said = outcome("succeeded", ref)
        settled, rescued = at_once(
            lambda o=said: settle([o], worker),  # type: ignore[misc]
            lambda r=ref: transitions.shift("handed_back", [r], WHY),  # type: ignore[misc]
        )
        assert bool(settled) != bool(rescued)
        assert now_of(ref.job)[0] is (Status.SUCCEEDED if settled else Status.PENDING)


@pytest.mark.django_db(transaction=True)
def test_two_schedulers_that_stage_at_once_never_stage_a_job_twice() -> None:
    transitions.accept([asked(n) for n in range(200)])
    letters.lease()
    rounds = [at_once(*[lambda: stage(20)] * 2) for _ in range(12)]
    staged = [ref.job for pair in rounds for refs in pair for ref in refs]
    assert sorted(staged) == sorted(set(staged))
    assert len(staged) == 200


@pytest.mark.django_db(transaction=True)
def test_a_task_id_accepted_by_many_threads_at_once_is_one_job() -> None:
    for number in range(10):
        new = at_once(*[lambda n=number: transitions.accept([asked(n)])] * 4)  # type: ignore[misc]
        assert sorted(map(len, new)) == [0, 0, 0, 1]
    assert Job.objects.count() == Live.objects.count() == 10


@pytest.mark.django_db(transaction=True)
def test_two_people_who_decide_at_once_are_told_apart() -> None:
    from celeriac.errors import Moved

    for _ in range(10):
        letter = letters.dead_letter()

        def decide(way: Callable[..., None], pk: int = letter.pk) -> str:
            try:
                way(DeadLetter.objects.get(pk=pk), Decider("amy"), "because")
            except Moved:
                return "moved"
            return way.__name__

        said = at_once(lambda: decide(triage.run_again), lambda: decide(triage.ignore))
        assert said.count("moved") == 1
        now_of(letter.job_id)


@pytest.mark.django_db(transaction=True)
def test_the_scheduler_waits_for_no_row_that_somebody_else_holds() -> None:
    held, free = letters.accept(), letters.accept()
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Live.objects.select_for_update().get(pk=held.pk)
            locked.set()
            done.wait(30)
        connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert locked.wait(30)
        with transaction.atomic(), connections["default"].cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '5s'")
            assert [ref.job for ref in stage()] == [free.pk]
            assert transitions.shift("parked", [Ref(held.pk, 0)], WHY, parked=None) == []
    finally:
        done.set()
        holder.join()
