"""Messages of plain Celery become jobs, each once, and their senders get what they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import celery
import pytest
from celery import chain, chord

from celeriac.models import Job
from tests.support import effects, watch
from tests.support.fleet import Fleet
from tests.support.product import Product
from tests.support.waiting import wait_until

LIMIT = 60.0


@pytest.fixture(scope="module")
def sender(product: Product) -> Iterator[Any]:
    """A service that uses plain Celery, with results in Redis, and shares nothing but the broker and names of tasks."""
    url = product.services.redis_url
    app = celery.Celery("elsewhere", broker=url, backend=url, set_as_current=False)
    yield app
    app.close()


@pytest.fixture(scope="module")
def env(product: Product) -> dict[str, str]:
    return {"PROBE_RESULT_BACKEND": product.services.redis_url}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet, env: dict[str, str]) -> None:
    """A leader; workers come with the tests."""
    fleet.scheduler(env=env)


def _sig(sender: Any, name: str, *args: Any, **options: Any) -> Any:
    return sender.signature(f"tests.support.probe.{name}", args=args, **options)


def test_what_was_sent_before_the_switch_runs_once_after_it_and_its_senders_get_their_results(
    sender: Any, fleet: Fleet, env: dict[str, str]
) -> None:
    queue = {"queue": "old"}
    ready = [_sig(sender, "add", n, 1).apply_async(**queue) for n in range(60)]
    soon = datetime.now(UTC) + timedelta(seconds=2)
    later = [_sig(sender, "note", f"later {n}").apply_async(eta=soon, **queue) for n in range(20)]
    chains = [
        chain(_sig(sender, "add", n, 1).set(**queue), _sig(sender, "add", 10).set(**queue)).apply_async()
        for n in range(10)
    ]
    chords = [
        chord(
            [_sig(sender, "add", n, 1).set(**queue), _sig(sender, "add", n, 2).set(**queue)],
            _sig(sender, "total").set(**queue),
        ).apply_async()
        for n in range(5)
    ]
    failing = _sig(sender, "fail", "adopted failure").apply_async(**queue)

    worker = fleet.worker("old", 4, env=env)

    assert [result.get(timeout=LIMIT) for result in ready] == [n + 1 for n in range(60)]
    assert [result.get(timeout=LIMIT) for result in later] == [f"later {n}" for n in range(20)]
    assert [result.get(timeout=LIMIT) for result in chains] == [n + 11 for n in range(10)]
    assert [result.get(timeout=LIMIT) for result in chords] == [2 * n + 3 for n in range(5)]
    with pytest.raises(Exception, match="no"):
        failing.get(timeout=LIMIT)
    watch.none_unfinished()
    mine = Job.objects.filter(queue="old").exclude(task_type="celeriac.propagate")
    assert Counter(mine.values_list("attempt", flat=True)) == {1: 60 + 20 + 20 + 15 + 1}
    assert [effects.count(f"later {n}") for n in range(20)] == [1] * 20
    assert worker.stop() == 0


def test_a_message_that_comes_twice_is_one_job(sender: Any, fleet: Fleet, env: dict[str, str]) -> None:
    for _ in range(3):
        _sig(sender, "note", "came thrice").apply_async(queue="again", task_id="came-thrice")
    worker = fleet.worker("again", 2, env=env)

    wait_until(lambda: effects.count("came thrice") == 1, what="it has run")
    watch.none_unfinished()
    assert effects.count("came thrice") == 1
    assert Job.objects.filter(alias="came-thrice").count() == 1
    assert worker.stop() == 0


def test_what_comes_while_the_database_is_away_is_adopted_when_it_is_back(
    sender: Any, fleet: Fleet, env: dict[str, str], product: Product
) -> None:
    """Acknowledged after the commit, and not a moment before."""
    worker = fleet.worker("held back", 2, env=env)
    product.services.postgres.pause()
    try:
        for n in range(5):
            _sig(sender, "note", f"held back {n}").apply_async(queue="held back")
        wait_until(lambda: product.redis().hlen("unacked") > 0, what="one was taken", dump=worker.tail)
        taken = product.redis().hlen("unacked")
        assert product.redis().llen("held back") + taken == 5
    finally:
        product.services.postgres.resume()
    watch.none_unfinished()
    wait_until(lambda: effects.count("held back 4") == 1, what="all have run", dump=worker.tail)
    watch.none_unfinished()
    assert [effects.count(f"held back {n}") for n in range(5)] == [1] * 5
    assert product.redis().hlen("unacked") == 0
    assert worker.stop() == 0
