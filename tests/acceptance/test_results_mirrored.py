"""``CELERIAC["MIRROR_RESULTS"]``: whoever queries django-celery-results' ``TaskResult`` finds how jobs ended, as before."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from django_celery_results.models import TaskResult

from celeriac.models import DeadLetter
from celeriac.triage import letters
from celeriac.triage.letters import Decider
from tests.support import probe, watch
from tests.support.fleet import Fleet

Open = Callable[[str], None]


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """Every process of the project mirrors."""
    return {"CELERIAC_MIRROR_RESULTS": "true"}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet, overrides: dict[str, str]) -> Iterator[None]:
    """A leader and a worker; this process is one of the project's, too."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in overrides.items():
            patch.setenv(name, value)
        fleet.scheduler(wait=False)
        fleet.worker("default", 2)
        yield


def mirrored(result: Any) -> TaskResult:
    """The row of a job that has ended."""
    watch.ended(result)
    row: TaskResult = TaskResult.objects.get(task_id=result.id)
    return row


def test_a_success_has_its_value_name_worker_and_times() -> None:
    result = probe.echo.delay("mirrored 🥕 \x00", n=1)
    row = mirrored(result)
    job = watch.job(result)

    assert (row.status, row.task_name, row.worker) == ("SUCCESS", probe.echo.name, watch.worker_of(result).hostname)
    assert (row.content_type, row.content_encoding) == ("application/json", "utf-8")
    assert json.loads(row.result)["kwargs"] == {"n": 1}
    assert (row.date_created, row.date_started, row.date_done) == (job.created_at, job.started_at, job.ended_at)
    assert row.traceback is None


def test_its_value_is_read_as_celery_reads_it() -> None:
    from django_celery_results.backends import DatabaseBackend

    result = probe.add.delay(20, 22)
    failed = probe.fail.delay("read", "because: of it")
    mirrored(result)
    mirrored(failed)
    theirs = DatabaseBackend(app=probe.app)

    assert theirs.get_task_meta(result.id)["result"] == 42
    meta = theirs.get_task_meta(failed.id)
    assert (meta["status"], type(meta["result"]), str(meta["result"])) == ("FAILURE", probe.Refused, "because: of it")
    assert "raise Refused" in meta["traceback"]


def test_nothing_as_a_value_is_null() -> None:
    row = mirrored(probe.do_nothing.delay())

    assert (row.status, row.result) == ("SUCCESS", "null")


def test_a_failed_attempt_that_is_repeated_is_no_row_and_the_last_one_is() -> None:
    row = mirrored(probe.fail_by_letters.delay("mirrored letters"))

    assert row.status == "FAILURE"
    assert json.loads(row.result)["exc_message"] == ["failure C"]
    assert TaskResult.objects.filter(task_id=row.task_id).count() == 1


def test_a_job_that_is_killed_has_its_row_from_whoever_settles_it() -> None:
    row = mirrored(probe.overrun_and_fail.delay("mirrored overrun"))

    assert row.status == "FAILURE"
    assert json.loads(row.result)["exc_type"] == "HardTimeLimit"


def test_what_is_revoked_or_expires_is_revoked() -> None:
    revoked = probe.note.apply_async(("revoked",), countdown=600)
    expired = probe.note.apply_async(("expired",), countdown=600, expires=0.2)
    revoked.revoke()

    assert [mirrored(result).status for result in (revoked, expired)] == ["REVOKED", "REVOKED"]


def test_a_dead_letter_that_is_sent_back_has_no_row_until_it_ends_again(open_gate: Open) -> None:
    gate = uuid.uuid4().hex
    result = probe.refuse_until.delay("mirrored letter", gate)
    assert mirrored(result).status == "FAILURE"
    letter = DeadLetter.objects.open().get(job_id=watch.job(result).seq)

    open_gate(gate)
    with transaction.atomic():
        letters.run_again(letter, Decider("amy"), "it is open now")
        assert not TaskResult.objects.filter(task_id=result.id).exists()

    row = mirrored(result)
    assert (row.status, json.loads(row.result)) == ("SUCCESS", "mirrored letter")


def test_an_id_of_ones_own_is_the_rows_id_and_one_that_is_too_long_for_it_has_none() -> None:
    short = probe.note.apply_async(("short id",), task_id="order 42")
    long = probe.note.apply_async(("long id",), task_id="x" * 300)

    assert mirrored(short).task_id == "order 42"
    assert watch.ended(long).outcome == "SUCCEEDED"
    assert not TaskResult.objects.filter(task_id__startswith="xxx").exists()


def test_what_is_forgotten_is_gone_here_too() -> None:
    result = probe.add.delay(1, 1)
    mirrored(result)

    result.forget()

    assert not TaskResult.objects.filter(task_id=result.id).exists()
