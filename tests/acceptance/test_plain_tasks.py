"""A task that is left out of the ledger is plain Celery, and goes together with those that are jobs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import celery
import pytest
import redis
from celery import chain, chord, group
from django.db import transaction

from celeriac.errors import OptionNotSupported
from celeriac.models import Job
from tests.support import effects, outside, watch
from tests.support.fleet import Fleet
from tests.support.processes import Member
from tests.support.product import Product
from tests.support.waiting import wait_until

LIMIT = 60.0


@pytest.fixture(scope="module")
def app_name() -> str:
    """The app some of whose tasks are left out."""
    return "tests.support.outside"


@pytest.fixture(scope="module")
def overrides(product: Product) -> dict[str, str]:
    """Reports are left out by a glob, and results of what is outside are in Redis."""
    return {
        "CELERIAC_PLAIN_TASKS": "reports.*,nightly.*",
        "OUTSIDE_RESULTS": product.services.redis_url,
        "OUTSIDE_LISTENS": "1",
    }


@pytest.fixture(scope="module", autouse=True)
def caller(overrides: dict[str, str], product: Product) -> Iterator[None]:
    """This process calls, under the same settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CELERIAC_PLAIN_TASKS", overrides["CELERIAC_PLAIN_TASKS"])
        outside.app.conf.result_backend = product.services.redis_url
        yield


@pytest.fixture(scope="module")
def elsewhere(product: Product) -> Iterator[Any]:
    """A service that uses plain Celery, and shares the broker and the names of tasks."""
    url = product.services.redis_url
    app = celery.Celery("elsewhere", broker=url, backend=url, set_as_current=False)
    yield app
    app.close()


@pytest.fixture(scope="module", autouse=True)
def worker(fleet: Fleet) -> Member:
    """A leader and a worker."""
    fleet.scheduler(wait=False)
    return fleet.worker("default", 4)


@pytest.fixture
def word() -> str:
    return uuid.uuid4().hex


@pytest.mark.parametrize("task", [outside.plain, outside.yearly], ids=["its own word", "the setting's glob"])
def test_a_task_that_is_left_out_runs_and_no_row_is_written(task: Any, word: str) -> None:
    result = task.delay(word)

    assert result.get(timeout=LIMIT) == word
    assert watch.find(result) is None
    assert effects.count(word) == 1
    assert (result.state, result.successful()) == ("SUCCESS", True)


def test_what_a_task_says_of_itself_goes_before_the_glob(word: str) -> None:
    result = outside.audited.delay(word)

    assert result.get(timeout=LIMIT) == word
    assert watch.job(result).outcome == "SUCCEEDED"


def test_a_caller_that_knows_only_the_name_has_the_glob(product: Product, word: str) -> None:
    result = outside.app.send_task("nightly.unknown", (word,), queue="nobody")

    assert watch.find(result) is None
    with redis.Redis.from_url(product.services.redis_url) as broker:
        assert broker.llen("nobody") == 1
        broker.delete("nobody")


def test_its_result_is_where_plain_senders_look(elsewhere: Any, word: str) -> None:
    result = outside.plain.delay(word)

    assert elsewhere.AsyncResult(result.id).get(timeout=LIMIT) == word


def test_it_fails_and_retries_as_in_celery(word: str) -> None:
    failed, again = outside.plain_fails.delay(word), outside.plain_again.delay(word)

    with pytest.raises(Exception, match=word):
        failed.get(timeout=LIMIT)
    assert failed.state == "FAILURE"
    assert again.get(timeout=LIMIT) == word
    assert effects.count(word) == 3
    assert watch.find(failed) is None
    assert watch.find(again) is None


def test_what_is_for_later_waits_in_the_worker_and_holds_up_no_job(word: str) -> None:
    later = [outside.plain.apply_async((f"{word} later",), eta=_in(3)) for _ in range(4)]
    later += [outside.plain.apply_async((f"{word} later",), countdown=3) for _ in range(4)]

    assert outside.job.delay(word).get(timeout=LIMIT) == word
    assert effects.count(f"{word} later") == 0
    assert [result.get(timeout=LIMIT) for result in later] == [f"{word} later"] * 8
    assert effects.count(f"{word} later") == 8


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_on_commit_it_is_sent_after_the_commit_and_not_at_all_after_a_rollback(word: str) -> None:
    with transaction.atomic():
        outside.plain.delay_on_commit(f"{word} kept")
        outside.plain.apply_async_on_commit((f"{word} kept too",))
    with transaction.atomic():
        outside.plain.delay_on_commit(f"{word} dropped")
        transaction.set_rollback(True)

    outside.plain.delay(f"{word} last").get(timeout=LIMIT)
    wait_until(lambda: effects.count(f"{word} kept") == effects.count(f"{word} kept too") == 1, what="both were sent")
    assert effects.count(f"{word} dropped") == 0


def test_chains_go_from_one_world_to_the_other_and_back(word: str) -> None:
    step = [outside.job.si(f"{word} 1"), outside.plain.si(f"{word} 2"), outside.job.si(f"{word} 3")]

    assert chain(*step, outside.plain.si(f"{word} 4")).delay().get(timeout=LIMIT) == f"{word} 4"
    assert [effects.count(f"{word} {number}") for number in (1, 2, 3, 4)] == [1] * 4
    assert outside.plain_sends.delay(f"{word} 5").get(timeout=LIMIT)
    wait_until(lambda: effects.count(f"{word} 5") == 1, what="the job that it sent has run")


def test_a_chord_counts_parts_of_both_worlds(word: str) -> None:
    parts = [outside.job.s("a"), outside.plain.s("b"), outside.yearly.s("c"), outside.job.s("d")]

    assert chord(parts, outside.total.s()).delay().get(timeout=LIMIT) == "a+b+c+d"
    assert chord([outside.plain.s("x"), outside.plain.s("y")], outside.total.s()).delay().get(timeout=LIMIT) == "x+y"
    assert sorted(group(parts).delay().get(timeout=LIMIT)) == ["a", "b", "c", "d"]


def test_a_plain_senders_chord_is_counted_in_its_own_backend(elsewhere: Any) -> None:
    name = "tests.support.outside"
    parts = [elsewhere.signature(f"{name}.plain", args=(letter,), queue="default") for letter in "abc"]

    asked = chord(parts, elsewhere.signature(f"{name}.plain_total", queue="default")).apply_async()

    assert asked.get(timeout=LIMIT) == "a+b+c"


@pytest.mark.parametrize("task", [outside.replaced_by_plain, outside.plain_replaced])
def test_either_may_take_the_others_place(task: Any, word: str) -> None:
    assert task.delay(word).get(timeout=LIMIT) == word
    assert effects.count(word) == 1


def test_revoke_and_inspect_treat_it_as_celery_does(word: str, gate: str) -> None:
    running = outside.plain_holds.delay(word, gate)
    wait_until(lambda: effects.count(word) == 1, what="it runs")
    later = outside.plain.apply_async((f"{word} later",), countdown=3)
    later.revoke()
    # A connection of its own: one that lay in the pool while another test restarted Redis is dead, and
    # Celery's inspect, unlike its publish, doesn't try again.
    with outside.app.connection_for_write() as connection:
        (active,) = outside.app.control.inspect(timeout=1, connection=connection).active().values()
    assert running.id in [task["id"] for task in active]
    running.revoke(terminate=True)
    with pytest.raises(celery.exceptions.TaskRevokedError):
        running.get(timeout=LIMIT)
    with pytest.raises(celery.exceptions.TaskRevokedError):
        later.get(timeout=LIMIT)
    assert effects.count(f"{word} later") == 0


def test_the_worker_treats_its_message_as_celery_does(paper: Path, word: str) -> None:
    plain, job = outside.plain.delay(word), outside.job.delay(word)
    assert (plain.get(timeout=LIMIT), job.get(timeout=LIMIT)) == (word, word)

    kinds = dict(effects.lines(paper))
    assert kinds[job.id] == "JobRequest"
    assert kinds[plain.id] == "Request"


def test_an_option_of_the_ledgers_is_refused_and_nothing_is_sent(word: str) -> None:
    with pytest.raises(OptionNotSupported, match="stays plain Celery"):
        outside.plain.apply_async((word,), biz_id="order-1")
    outside.plain.delay(f"{word} next").get(timeout=LIMIT)
    assert effects.count(word) == 0


def test_jobs_that_the_ledger_holds_when_a_task_is_left_out_run_to_their_end(word: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CELERIAC_PLAIN_TASKS")
        before = outside.yearly.delay(word)  # accepted under the old settings; the worker has the new ones

    assert before.get(timeout=LIMIT) == word
    assert watch.job(before).outcome == "SUCCEEDED"
    assert Job.objects.unfinished().count() == 0
