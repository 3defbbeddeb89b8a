"""Accepted means committed: a job lives and dies with the transaction that asked for it."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from celeriac.errors import EnqueueError
from celeriac.models import Job
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.transactions import rolled_back


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """An idle worker that would run at once whatever it is given."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 2)


def test_a_job_of_a_rolled_back_transaction_was_never_there() -> None:
    before = Job.objects.count()

    with rolled_back():
        probe.note.delay("rolled back")

    assert Job.objects.count() == before


def test_a_job_of_a_rolled_back_savepoint_was_never_there_and_its_neighbour_runs() -> None:
    with transaction.atomic():
        outer = probe.note.delay("outer")
        with rolled_back():
            inner = probe.note.delay("inner")

    assert outer.get(timeout=60) == "outer"
    assert watch.find(inner) is None
    assert effects.count("inner") == 0


def test_nothing_starts_before_the_commit() -> None:
    with transaction.atomic():
        early = probe.note.delay("uncommitted")
        # One that was committed elsewhere meanwhile has been through the whole way: it would have had the time.
        with _another_connection():
            witness = probe.note.delay("witness")
            watch.ended(witness)
            assert watch.find(early) is None
        assert effects.count("uncommitted") == 0
    assert early.get(timeout=60) == "uncommitted"


def test_other_hooks_of_the_commit_run_too() -> None:
    hooks: list[str] = []
    with transaction.atomic():
        transaction.on_commit(lambda: hooks.append("before"))
        result = probe.note.delay("with hooks")
        transaction.on_commit(lambda: hooks.append("after"))
    assert hooks == ["before", "after"]
    assert result.get(timeout=60) == "with hooks"


def test_delay_on_commit_gives_the_id_at_once_and_lives_with_the_transaction() -> None:
    with rolled_back():
        gone = probe.note.delay_on_commit("on commit, rolled back")
    with transaction.atomic():
        kept = probe.note.delay_on_commit("on commit")

    assert kept.get(timeout=60) == "on commit"
    assert watch.find(gone) is None


def test_a_job_whose_process_is_killed_right_after_the_commit_runs(fleet: Fleet) -> None:
    member = fleet.python("enqueuer", ["-m", "tests.support.enqueuer", "die", "--word", "orphan"])

    assert member.wait(60) == -signal.SIGKILL, member.tail()
    job = watch.ended(member.text().split()[-1])

    assert (job.outcome, effects.count("orphan")) == ("SUCCEEDED", 1)


# ---- requests in a transaction of their own --------------------------------------------------------------------------------


def _paid(request: HttpRequest) -> HttpResponse:
    return HttpResponse(probe.note.delay("paid").id)


def _broken(request: HttpRequest) -> HttpResponse:
    probe.note.delay("broken")
    raise RuntimeError


urlpatterns = [path("paid", _paid), path("broken", _broken)]


@pytest.fixture
def client(settings: Any) -> Iterator[Client]:
    """A client of a site with ATOMIC_REQUESTS."""
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    default = connections["default"]
    default.settings_dict["ATOMIC_REQUESTS"] = True
    yield Client(raise_request_exception=False)
    default.settings_dict["ATOMIC_REQUESTS"] = False


def test_a_request_that_fails_leaves_no_job_and_one_that_succeeds_does(client: Client) -> None:
    before = Job.objects.count()

    assert client.get("/broken").status_code == 500
    assert Job.objects.count() == before
    paid = client.get("/paid").content.decode()

    assert watch.ended(paid).outcome == "SUCCEEDED"
    assert effects.count("broken") == 0


# ---- another database ------------------------------------------------------------------------------------------------------


@pytest.fixture
def other() -> Iterator[str]:
    """A second alias of Django's, as a project with two databases has it."""
    with _alias("other"):
        yield "other"


def test_a_job_inside_a_transaction_of_another_database_is_warned_of(
    other: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "celeriac"), transaction.atomic(using=other):
        result = probe.note.delay("other database")

    assert "atomic block on database 'other'" in caplog.text
    assert result.get(timeout=60) == "other database"


def test_a_job_inside_transactions_of_both_databases_is_nothing_special(
    other: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "celeriac"), transaction.atomic(using=other), transaction.atomic():
        probe.note.delay("both databases")

    assert "atomic block" not in caplog.text


def test_where_that_is_to_be_refused_it_is_and_nothing_is_written(other: str, settings: Any) -> None:
    settings.CELERIAC = {"ON_OTHER_DATABASE": "refuse"}
    before = Job.objects.count()

    with pytest.raises(EnqueueError, match="'other'"), transaction.atomic(using=other):
        probe.note.delay("refused")

    assert Job.objects.count() == before


def _alias(name: str) -> _Alias:
    return _Alias(name)


class _Alias:
    """Makes an alias of the same database, with a session of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        connections.settings[self.name] = {**connections["default"].settings_dict}

    def __exit__(self, *exc: object) -> None:
        connections[self.name].close()
        del connections[self.name]
        del connections.settings[self.name]


class _another_connection:
    """Swaps this thread's connection for a fresh one, as another process has it."""

    def __enter__(self) -> None:
        self.mine = connections["default"]
        connections["default"] = self.mine.copy()

    def __exit__(self, *exc: object) -> None:
        connections["default"].close()
        connections["default"] = self.mine
