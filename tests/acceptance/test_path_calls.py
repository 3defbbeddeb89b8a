"""From ``.delay()`` to an ending: what a caller may ask for, and what it sees."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pytest
from celery.result import AsyncResult
from django.db import transaction
from django.utils import timezone

from celeriac import codes
from celeriac.errors import JobExists, PayloadNotSerialisable, PayloadTooLarge
from celeriac.models import DeadLetter, ErrorEvent, Job
from celeriac.states import Status
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

SLOTS = 2
Open = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """Two slots for everything, and one slot of its own for what is about order."""
    fleet.scheduler(wait=False)
    fleet.workers(("default", SLOTS), ("narrow", 1))


@pytest.fixture
def busy(open_gate: Open) -> Busy:
    """Occupies all slots of the default queue until told otherwise."""
    return Busy(open_gate)


class Busy:
    """Jobs that hold all slots."""

    def __init__(self, open_gate: Open) -> None:
        self._open = open_gate
        self.gate = uuid.uuid4().hex
        self.results: list[AsyncResult] = []

    def __enter__(self) -> Busy:
        self.results = [probe.hold.delay("busy", self.gate) for _ in range(SLOTS)]
        watch.comes_to(Status.RUNNING, *self.results)
        return self

    def __exit__(self, *exc: object) -> None:
        self._open(self.gate)
        watch.all_ended(self.results)


# ---- the way ---------------------------------------------------------------------------------------------------------------


def test_a_result_is_what_the_task_returned() -> None:
    result = probe.add.delay(2, 3)

    assert result.get(timeout=60) == 5
    assert (result.state, result.successful()) == ("SUCCESS", True)


def test_a_caller_sees_each_state_on_the_way(busy: Busy) -> None:
    with busy:
        assert {result.state for result in busy.results} == {"STARTED"}
        with transaction.atomic():
            result = probe.note.delay("on the way")
            assert result.state == "PENDING"
        watch.comes_to(Status.DISPATCHED, result)
        assert result.state == "RECEIVED"
    assert result.get(timeout=60) == "on the way"
    assert result.state == "SUCCESS"


def test_the_messages_of_a_backlog_stay_in_the_ledger(busy: Busy) -> None:
    with busy:
        results = [probe.note.delay("backlog") for _ in range(20)]
        wait_until(lambda: any(watch.job(r).status is Status.DISPATCHED for r in results), what="the window is used")
        states = [watch.job(r).status for r in results]
        assert states.count(Status.DISPATCHED) <= SLOTS
    assert watch.all_ended(results) == {"SUCCEEDED": 20}


# ---- retries and failures --------------------------------------------------------------------------------------------------


def test_a_retry_asked_for_inside_atomic_comes_back_with_its_new_arguments() -> None:
    result = probe.retry_in_atomic.delay("again")

    job = watch.ended(result)

    assert (job.outcome, result.get(), job.attempt, job.retry_count) == ("SUCCEEDED", 2, 3, 2)
    words = [word for word in effects.words() if word.startswith("again")]
    # What stood beside a request for another run was rolled back with its transaction; the request was not.
    assert words == ["again 0", "again 1", "again 2", "again kept"]
    assert effects.seconds_between("again 0", "again 2") >= 0.6


def test_more_retries_than_allowed_end_with_the_tasks_own_error() -> None:
    result = probe.retry_too_often.delay("too often")

    job = watch.ended(result)

    assert (job.outcome, job.attempt, effects.count("too often")) == ("FAILED", 2, 2)
    with pytest.raises(probe.Refused, match="still no"):
        result.get()


def test_a_policy_tries_again_and_then_asks_a_person() -> None:
    result = probe.fail_by_letters.delay("letters")

    job = watch.ended(result)

    assert (job.outcome, job.attempt, effects.count("letters")) == ("DEAD_LETTER", 3, 3)
    assert watch.messages(result) == ["failure A", "failure B", "failure C"]
    seen = ErrorEvent.objects.filter(job_id=job.seq).order_by("id").values_list("error_code", "attempt")
    assert list(seen) == [("PROBE_AX_503", 1), ("PROBE_BX_503", 2), ("PROBE_CX_503", 3)]
    letter = DeadLetter.objects.open().get(job_id=job.seq)
    assert (letter.error_code, letter.message, letter.attempts) == ("PROBE_CX_503", "failure C", 3)
    assert result.state == "FAILURE"


def test_without_a_policy_one_failure_is_the_end_as_in_celery() -> None:
    result = probe.fail.delay("once", "because")

    job = watch.ended(result)

    assert (job.outcome, job.attempt, effects.count("once")) == ("FAILED", 1, 1)
    assert watch.messages(result) == ["because"]
    assert not DeadLetter.objects.filter(job_id=job.seq).exists()
    with pytest.raises(probe.Refused, match="because"):
        result.get()


def test_a_job_past_its_hard_limit_is_killed_and_its_policy_decides() -> None:
    result = probe.overrun.delay("overrun")

    job = watch.ended(result)

    assert (job.outcome, job.attempt, job.lost_count, effects.count("overrun")) == ("DEAD_LETTER", 2, 0, 2)
    assert job.error_code == codes.TIME_LIMIT
    assert job.ended_at is not None
    assert job.started_at is not None
    lasted = (job.ended_at - job.started_at).total_seconds()
    print(f"\nhard limit 0.6 s: the last run was settled after {lasted:.2f} s")
    # Celery's pool may notice a death only after 5 s.
    assert 0.6 <= lasted < 3


def test_a_hard_limit_of_the_call_ends_a_job_without_a_policy() -> None:
    result = probe.hold_without_policy.apply_async(("limited", "never"), time_limit=0.6)

    job = watch.ended(result)

    assert (job.outcome, job.error_code, effects.count("limited")) == ("FAILED", codes.TIME_LIMIT, 1)


def test_a_soft_limit_is_an_exception_that_a_task_may_answer() -> None:
    assert probe.heed.delay("heed").get(timeout=60) == "cleaned up"


def test_a_soft_limit_that_is_not_answered_is_a_failure_with_a_code_of_its_own() -> None:
    job = watch.ended(probe.ignore_the_hint.delay("unheeded"))

    assert (job.outcome, job.error_code, effects.count("unheeded")) == ("FAILED", codes.SOFT_TIME_LIMIT, 1)


def test_sys_exit_in_a_task_fails_its_job_and_nothing_else() -> None:
    job = watch.ended(probe.leave.delay("left"))

    assert (job.outcome, job.attempt, effects.count("left")) == ("FAILED", 1, 1)
    assert "SystemExit" in str(job.error)
    assert probe.add.delay(1, 1).get(timeout=60) == 2


def test_a_result_that_json_cannot_keep_is_a_failure_that_says_where() -> None:
    job = watch.ended(probe.return_a_socket.delay("socket"))

    assert (job.outcome, job.error_code) == ("FAILED", codes.RESULT_UNSERIALISABLE)
    assert "result['rows'][0]" in str(job.error)


# ---- arguments -------------------------------------------------------------------------------------------------------------


def test_an_argument_that_json_cannot_keep_is_refused_by_its_path_and_nothing_is_written() -> None:
    before = Job.objects.count()

    with pytest.raises(PayloadNotSerialisable) as refused:
        probe.echo.delay(1, {"when": [1, 2, object()]})

    assert refused.value.path == "args[1]['when'][2]"
    assert Job.objects.count() == before


def test_arguments_beyond_the_limit_are_refused_with_path_and_size_and_nothing_is_written() -> None:
    before = Job.objects.count()

    with pytest.raises(PayloadTooLarge) as refused:
        probe.echo.delay("small", blob="x" * (1024 * 1024))

    assert refused.value.path.startswith("kwargs['blob']")
    assert refused.value.size > 1024 * 1024
    assert Job.objects.count() == before


def test_arguments_arrive_as_what_they_were() -> None:
    given = [
        datetime(2026, 2, 28, 23, 59, 59, 123456, tzinfo=UTC),
        datetime(2026, 2, 28, 1, 2, 3),
        date(2026, 2, 28),
        time(1, 2, 3, 456),
        timedelta(days=-1, seconds=5, microseconds=7),
        Decimal("1.10"),
        uuid.UUID("12345678-1234-5678-1234-567812345678"),
        b"\x00\xff raw",
        "ünïcode 🥕",
        {"nested": [Decimal("0.1"), timedelta(hours=3), None, True, 1.5, 2**70]},
    ]
    result = probe.echo.delay(*given, when=timedelta(weeks=2))

    found = result.get(timeout=60)

    assert found["args"] == given
    assert [type(each) for each in found["args"]] == [type(each) for each in given]
    assert found["kwargs"] == {"when": timedelta(weeks=2)}
    assert "timedelta(days=14)" in found["repr"]


@pytest.mark.parametrize("text", ["nul \x00 in it", "lone \ud800 surrogate"], ids=["nul", "surrogate"])
def test_text_that_postgresql_refuses_travels_there_and_back(text: str) -> None:
    result = probe.echo.delay(text, key=text)

    found = result.get(timeout=60)

    assert (found["args"], found["kwargs"]) == ([text], {"key": text})


@pytest.mark.parametrize("text", ["nul \x00 in it", "lone \ud800 surrogate"], ids=["nul", "surrogate"])
def test_an_error_whose_text_postgresql_refuses_is_settled_all_the_same(text: str) -> None:
    job = watch.ended(probe.fail.delay("odd error", text))

    assert (job.outcome, job.attempt) == ("FAILED", 1)
    assert str(job.error).startswith("tests.support.probe.Refused: ")


# ---- when ------------------------------------------------------------------------------------------------------------------


def test_a_countdown_is_waited_for() -> None:
    first = probe.note.delay("at once")
    second = probe.note.apply_async(("later",), countdown=1.2)
    watch.all_ended([first, second])

    assert effects.seconds_between("at once", "later") >= 1.1


def test_a_negative_countdown_is_due_now() -> None:
    assert probe.note.apply_async(("overdue",), countdown=-3600).get(timeout=60) == "overdue"


def test_an_eta_is_waited_for_and_a_naive_one_is_in_djangos_time_zone() -> None:
    eta = timezone.now() + timedelta(seconds=1.5)
    with timezone.override("Asia/Shanghai"):
        naive = timezone.make_naive(eta)
        results = [
            probe.note.apply_async(("aware eta",), eta=eta),
            probe.note.apply_async(("naive eta",), eta=naive),
        ]
    watch.all_ended(results)

    assert [watch.job(r).started_at >= eta for r in results] == [True, True]
    late = max((watch.job(r).started_at - eta).total_seconds() for r in results)
    print(f"\neta: started {late:.3f} s after it")


def test_an_expired_job_never_runs(busy: Busy) -> None:
    with busy:
        late = probe.note.apply_async(("expired",), expires=0.4)
        moment = probe.note.apply_async(("expired",), expires=timezone.now() + timedelta(seconds=0.4))
        past = probe.note.apply_async(("expired",), expires=timezone.now() - timedelta(days=1))
        delayed = probe.note.apply_async(("expired",), countdown=600, expires=0.4)
        outcomes = watch.all_ended([late, moment, past, delayed])
    assert outcomes == {"CANCELLED": 4}
    assert effects.count("expired") == 0
    assert late.state == "REVOKED"


def test_a_job_that_has_not_expired_runs() -> None:
    assert probe.note.apply_async(("in time",), expires=600).get(timeout=60) == "in time"


# ---- which first, and whether at all ---------------------------------------------------------------------------------------


def test_of_a_backlog_the_highest_priority_runs_next(open_gate: Open) -> None:
    gate = uuid.uuid4().hex
    blocker = probe.hold.apply_async(("blocker", gate), queue="narrow")
    watch.comes_to(Status.RUNNING, blocker)
    low = [probe.note.apply_async((f"low {n}",), queue="narrow", priority=1) for n in range(6)]
    # Chosen before the urgent one was there, and already in the broker: it must let the other pass all the same.
    watch.comes_to(Status.DISPATCHED, low[0])
    high = probe.note.apply_async(("high",), queue="narrow", priority=9)
    open_gate(gate)
    watch.all_ended([*low, high])

    order = [word for word in effects.words() if word == "high" or word.startswith("low ")]
    assert order == ["high", *(f"low {n}" for n in range(6))]


def test_a_job_that_is_revoked_before_it_starts_never_runs(busy: Busy) -> None:
    with busy:
        waiting = [probe.note.delay("revoked") for _ in range(4)]
        later = probe.note.apply_async(("revoked",), countdown=600)
        for result in [*waiting, later]:
            result.revoke()
        assert watch.all_ended([*waiting, later]) == {"CANCELLED": 5}
        assert waiting[0].state == "REVOKED"
    assert probe.add.delay(1, 1).get(timeout=60) == 2
    assert effects.count("revoked") == 0


@pytest.mark.parametrize("own", ["order-42", str(uuid.UUID(int=42))], ids=["text", "uuid"])
def test_an_id_of_ones_own_is_accepted_once(own: str, open_gate: Open) -> None:
    gate = uuid.uuid4().hex
    first = probe.hold.apply_async((own, gate), task_id=own)
    watch.comes_to(Status.RUNNING, first)

    second = probe.hold.apply_async((own, gate), task_id=own)

    assert (first.id, second.id) == (own, own)
    open_gate(gate)
    assert second.get(timeout=60) == own
    with pytest.raises(JobExists) as refused:
        probe.hold.apply_async((own, gate), task_id=own)
    assert (refused.value.task_id, refused.value.outcome) == (own, "SUCCEEDED")
    assert effects.count(own) == 1
