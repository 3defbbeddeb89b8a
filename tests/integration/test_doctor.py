"""The doctor finds each kind of damage, and nothing on a ledger that is well."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone

from celeriac import clock
from celeriac.guard import switches
from celeriac.ledger import transitions
from celeriac.ledger.dialects.postgres_fleet import TAKE_WITNESS_LOCK
from celeriac.ledger.rows import Why
from celeriac.ledger.session import own_session
from celeriac.models import Control, DeadLetter, Job, Lease, Live, Quarantined, Worker
from celeriac.outcomes import Ref
from celeriac.settle.spool import Spool
from celeriac.states import ParkedReason
from celeriac.upkeep import doctor
from tests.support import letters

pytestmark = pytest.mark.django_db

LONG = timedelta(hours=3)


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    """A spool of our own."""
    monkeypatch.setenv("CELERIAC_SPOOL_DIR", str(tmp_path / "spool"))
    return Spool(tmp_path / "spool", str(uuid.uuid4()))


def found() -> dict[str, int]:
    return {finding.check: finding.count for finding in doctor.examine()}


def _ago(duration: timedelta) -> object:
    return timezone.now() - duration


def _long_ago(job: Job, **fields: object) -> None:
    """Have the job's place say that it has been so for hours."""
    names = [name for name in ("run_at", "since", "dispatched_at", "claimed_at") if getattr(job.live, name)]
    Live.objects.filter(job=job).update(**{name: _ago(LONG) for name in names}, **fields)


def _park(job: Job, reason: ParkedReason) -> None:
    ref = Ref(job.pk, Live.objects.get(job=job).fence)
    assert transitions.shift("parked", [ref], Why("test", "held"), parked=reason)


# ---- damage, one kind a function -------------------------------------------------------------------------------------------


def _a_place_is_lost(on: Worker) -> None:
    Live.objects.filter(job=letters.accept()).delete()


def _an_ended_job_keeps_its_place(on: Worker) -> None:
    job = letters.accept()
    Job.objects.filter(pk=job.pk).update(outcome="SUCCEEDED", ended_at=timezone.now())


def _a_job_is_lost(on: Worker) -> None:
    Job.objects.filter(pk=letters.accept().pk).delete()


def _a_deadline_is_over(on: Worker) -> None:
    job = letters.accept()
    letters.claim(job, on)
    Live.objects.filter(job=job).update(deadline=_ago(timedelta(minutes=1)))


def _a_worker_ended_under_its_job(on: Worker) -> None:
    letters.claim(letters.accept(), on)
    Worker.objects.filter(pk=on.pk).update(ended_at=_ago(timedelta(minutes=1)), state=Worker.State.GONE)


def _a_worker_was_deleted_under_its_job(on: Worker) -> None:
    letters.claim(letters.accept(), on)
    on.delete()


def _a_process_has_two_jobs(on: Worker) -> None:
    for _ in range(2):
        letters.claim(letters.accept(), on)
    Live.objects.update(claimed_at=_ago(timedelta(seconds=30)))


def _a_worker_has_no_session_of_its_own(on: Worker) -> None:
    Worker.objects.update(witnessed=False)


def _nobody_serves_the_queue(on: Worker) -> None:
    _long_ago(letters.accept(queue="elsewhere"))


def _the_only_job_of_a_queue_without_a_worker_was_dispatched(on: Worker) -> None:
    job = letters.accept(queue="elsewhere")
    letters.dispatch(job)
    Live.objects.update(run_at=_ago(LONG), since=_ago(LONG))


def _the_only_worker_of_a_queue_is_deaf(on: Worker) -> None:
    Worker.objects.update(state=Worker.State.DEAF)
    _long_ago(letters.accept())


def _nothing_was_sent_again(on: Worker) -> None:
    job = letters.accept()
    letters.dispatch(job)
    job.refresh_from_db()
    _long_ago(job)


def _nothing_was_dispatched(on: Worker) -> None:
    _long_ago(letters.accept())


def _the_switch_is_on_again(on: Worker) -> None:
    job = letters.accept()
    switches.turn("type", letters.TYPE, on=False, actor="amy", reason="maintenance")
    _park(job, ParkedReason.SWITCH)
    switches.turn("type", letters.TYPE, on=True, actor="amy", reason="done")
    Control.objects.update(changed_at=_ago(LONG))
    Live.objects.filter(job=job).update(since=_ago(LONG))


def _a_worker_that_knows_it_is_there(on: Worker) -> None:
    job = letters.accept()
    _park(job, ParkedReason.NO_HANDLER)
    Live.objects.filter(job=job).update(since=_ago(LONG))
    Worker.objects.update(started_at=_ago(LONG))


def _a_letter_is_lost(on: Worker) -> None:
    letters.dead_letter(on=on).delete()


def _a_letter_is_closed_and_its_job_is_not(on: Worker) -> None:
    DeadLetter.objects.filter(pk=letters.dead_letter(on=on).pk).update(state=DeadLetter.State.IGNORED)


def _a_letters_job_went_elsewhere(on: Worker) -> None:
    Job.objects.filter(pk=letters.dead_letter(on=on).job_id).update(outcome="SUCCEEDED")


def _a_letters_job_is_lost(on: Worker) -> None:
    letter = letters.dead_letter(on=on)
    # The database has no foreign key to cascade by, and Django's own cascade would take the letter along.
    Job.objects.filter(pk=letter.job_id)._raw_delete("default")  # type: ignore[attr-defined]


def _the_leader_is_gone(on: Worker) -> None:
    letters.accept()
    Lease.objects.update(renewed_at=_ago(LONG))


def _nobody_has_ever_led(on: Worker) -> None:
    letters.accept()
    Lease.objects.all().delete()


def _garbage_came(on: Worker) -> None:
    Quarantined.objects.create(at=timezone.now(), queue="sms", reason="no kombu envelope", body=b"\x00", size=1)


DAMAGE: list[tuple[str, Callable[[Worker], None]]] = [
    ("unfinished-without-live", _a_place_is_lost),
    ("ended-with-live", _an_ended_job_keeps_its_place),
    ("ended-with-live", _a_job_is_lost),
    ("running-past-deadline", _a_deadline_is_over),
    ("running-under-a-dead-worker", _a_worker_ended_under_its_job),
    ("running-under-a-dead-worker", _a_worker_was_deleted_under_its_job),
    ("worker-without-witness", _a_worker_has_no_session_of_its_own),
    ("two-live-claims", _a_process_has_two_jobs),
    ("nobody-consumes", _nobody_serves_the_queue),
    ("nobody-consumes", _the_only_job_of_a_queue_without_a_worker_was_dispatched),
    ("nobody-consumes", _the_only_worker_of_a_queue_is_deaf),
    ("dispatched-too-long", _nothing_was_sent_again),
    ("overdue", _nothing_was_dispatched),
    ("parked-for-nothing", _the_switch_is_on_again),
    ("parked-for-nothing", _a_worker_that_knows_it_is_there),
    ("dead-letter-without-letter", _a_letter_is_lost),
    ("dead-letter-without-letter", _a_letter_is_closed_and_its_job_is_not),
    ("letter-without-dead-letter", _a_letters_job_went_elsewhere),
    ("letter-without-dead-letter", _a_letters_job_is_lost),
    ("lease-without-lock", _the_leader_is_gone),
    ("no-scheduler-yet", _nobody_has_ever_led),
    ("quarantine", _garbage_came),
]


@pytest.mark.parametrize(("check", "damage"), DAMAGE, ids=[damage.__name__.strip("_") for _, damage in DAMAGE])
def test_damage_is_found_by_its_own_check_and_by_no_other(check: str, damage: Callable[[Worker], None]) -> None:
    on = letters.worker()
    letters.lease()
    assert found() == {}

    damage(on)

    assert found() == {check: 1}


def test_outcomes_that_wait_on_disk_are_found(spool: Spool) -> None:
    assert found() == {}
    spool.append({"worker": str(uuid.uuid4()), "outcome": {}})

    assert found() == {"spool": 1}


@contextmanager
def witness_lock(key: int) -> Iterator[None]:
    """Somebody's session that holds the witness lock with that key."""
    session = own_session("default")
    try:
        with session.cursor() as cursor:
            cursor.execute(TAKE_WITNESS_LOCK, [key])
        yield
    finally:
        session.close()


@pytest.mark.parametrize("ended", [True, False], ids=["of_an_incarnation_that_ended", "of_no_incarnation_at_all"])
def test_a_witness_lock_that_no_living_incarnation_owns_is_found(ended: bool) -> None:
    letters.worker()
    Worker.objects.update(lock_key=-4711, ended_at=timezone.now() if ended else None)
    with witness_lock(-4711 if ended else 4711):
        assert found() == {}, "a worker takes its lock before its row is there, and keeps it while it says good-bye"
        with clock.shift(60):
            assert found() == {"lock-without-incarnation": 1}
    with clock.shift(60):
        assert found() == {}


def test_the_witness_lock_of_a_living_incarnation_is_no_finding() -> None:
    letters.worker()
    Worker.objects.update(lock_key=4711)
    with witness_lock(4711), clock.shift(60):
        assert found() == {}


def test_every_check_has_its_damage() -> None:
    apart = {"spool", "lock-without-incarnation"}
    assert {check.name for check in doctor.CHECKS} == {check for check, _ in DAMAGE} | apart


# ---- what is no damage -----------------------------------------------------------------------------------------------------


def _switched_off(on: Worker) -> None:
    job = letters.accept()
    switches.turn("type", letters.TYPE, on=False, actor="amy", reason="maintenance")
    _long_ago(job)
    parked = letters.accept()
    _park(parked, ParkedReason.SWITCH)
    Live.objects.filter(job=parked).update(since=_ago(LONG))
    Control.objects.update(changed_at=_ago(LONG))


def _queue_switched_off(on: Worker) -> None:
    switches.turn("queue", letters.QUEUE, on=False, actor="amy", reason="maintenance")
    _long_ago(letters.accept())


def _a_queue_without_a_worker_is_switched_off(on: Worker) -> None:
    switches.turn("queue", "elsewhere", on=False, actor="amy", reason="no workers yet")
    _long_ago(letters.accept(queue="elsewhere"))


def _a_worker_has_no_session_of_its_own(on: Worker) -> None:
    Worker.objects.update(witnessed=False)


def _nobody_serves_the_queue_yet(on: Worker) -> None:
    letters.accept(queue="elsewhere")


def _a_suspect_waits_for_a_worker_without_one(on: Worker) -> None:
    letters.claim(letters.accept(), on)
    Live.objects.update(suspicion=1)
    waiting = letters.accept()
    _long_ago(waiting, suspicion=2)


def _a_threads_pool_runs_several_jobs(on: Worker) -> None:
    Worker.objects.update(pool="threads")
    _a_process_has_two_jobs(on)


def _nobody_knows_the_type(on: Worker) -> None:
    job = letters.accept(task_type="shop.newcomer")
    _park(job, ParkedReason.NO_HANDLER)
    Live.objects.filter(job=job).update(since=_ago(LONG))


def _no_slot_is_free(on: Worker) -> None:
    Worker.objects.filter(pk=on.pk).update(slots=1)
    letters.claim(letters.accept(), on)
    _long_ago(letters.accept())


def _due_much_later(on: Worker) -> None:
    letters.accept(delay=86400.0)


def _released_a_moment_ago(on: Worker) -> None:
    """A job that was held for hours keeps its place in the line, and has just begun to wait again."""
    job = letters.accept()
    _long_ago(job)
    _park(job, ParkedReason.SWITCH)
    live = Live.objects.get(job=job)
    assert transitions.shift("unparked", [Ref(job.pk, live.fence)], Why("test", "on again"))
    assert Live.objects.get(job=job).run_at == live.run_at


def _running_without_a_limit(on: Worker) -> None:
    job = letters.accept()
    letters.claim(job, on)
    Live.objects.filter(job=job).update(claimed_at=_ago(LONG), since=_ago(LONG), deadline=None)


def _an_open_letter(on: Worker) -> None:
    letters.dead_letter(on=on)


HEALTH = [
    _switched_off,
    _queue_switched_off,
    _a_queue_without_a_worker_is_switched_off,
    _nobody_serves_the_queue_yet,
    _a_suspect_waits_for_a_worker_without_one,
    _a_threads_pool_runs_several_jobs,
    _nobody_knows_the_type,
    _no_slot_is_free,
    _due_much_later,
    _released_a_moment_ago,
    _running_without_a_limit,
    _an_open_letter,
]


@pytest.mark.parametrize("state", HEALTH, ids=[state.__name__.strip("_") for state in HEALTH])
def test_what_waits_for_a_reason_is_no_finding(state: Callable[[Worker], None]) -> None:
    on = letters.worker()
    letters.lease()

    state(on)

    assert found() == {}


# ---- the command -----------------------------------------------------------------------------------------------------------


def test_the_command_says_it_as_json_and_by_its_exit_code() -> None:
    letters.lease()
    out = StringIO()
    call_command("celeriac", "doctor", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"clean": True, "findings": []}

    job = letters.accept()
    Live.objects.filter(job=job).delete()
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("celeriac", "doctor", "--json", stdout=out)

    assert ended.value.code == 1
    said = json.loads(out.getvalue())
    assert said["clean"] is False
    (finding,) = said["findings"]
    assert (finding["check"], finding["count"]) == ("unfinished-without-live", 1)
    assert finding["examples"] == [f"{letters.TYPE} {job.public_id}"]
    assert finding["remedy"]


def test_examples_are_few_and_the_count_is_true() -> None:
    letters.lease()
    for _ in range(12):
        letters.accept()
    Live.objects.all().delete()

    (finding,) = doctor.examine()

    assert (finding.count, len(finding.examples)) == (12, doctor.EXAMPLES)
