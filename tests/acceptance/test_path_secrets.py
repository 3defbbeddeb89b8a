"""What jobs are given, return and raise stays in the database: broker, events and logs see it masked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from celeriac.models import DeadLetter, Job
from celeriac.states import Status
from tests.support import probe, watch
from tests.support.fleet import Fleet
from tests.support.product import Product
from tests.support.waiting import wait_until

PHONE = "+8613812345678"
LOCAL_PHONE = "13987654321"
CARD = "4111 1111 1111 1111"
CARD_DIGITS = "5500005555555559"
TOKEN = "sk_live_9aB3kQ7xTzL2mN8p"
EMAIL = "amy.lin@customers.example.org"
# Known by the name they are under only.
NAMED = {"token": "hush-hush-0815", "password": "correct horse battery", "phone": "0815"}
PLAIN = (PHONE, LOCAL_PHONE, CARD, CARD_DIGITS, TOKEN, EMAIL)
# Spellings in which one may get out.
PLANTED = [*PLAIN, PHONE[1:], *(value for name, value in NAMED.items() if name != "phone")]
TASKS = (probe.return_secrets, probe.raise_secrets, probe.raise_secrets_again)


def _leaks(text: str) -> list[str]:
    return [secret for secret in PLANTED if secret in text]


def _everything_in(broker: redis.Redis) -> str:
    """Every key and every value."""
    found: list[bytes] = []
    for key in broker.scan_iter(count=1000):
        found.append(key)
        match broker.type(key):
            case b"string":
                found.append(broker.get(key) or b"")
            case b"list":
                found += broker.lrange(key, 0, -1)
            case b"set":
                found += broker.smembers(key)
            case b"hash":
                found += [part for pair in broker.hgetall(key).items() for part in pair]
            case b"zset":
                found += broker.zrange(key, 0, -1)
    return b"\n".join(found).decode("utf-8", "replace")


@contextmanager
def _wiretap(product: Product) -> Iterator[list[str]]:
    """Every command that reaches the broker: whatever is in it for a moment only passes here."""
    heard: list[str] = []
    client = product.redis()
    with client.monitor() as monitor:

        def listen() -> None:
            try:
                for command in monitor.listen():
                    heard.append(command["command"])
            except (redis.RedisError, OSError, ValueError, AttributeError):
                return  # closed: the tap is over

        threading.Thread(target=listen, daemon=True).start()
        yield heard
        monitor.connection.disconnect()
    client.close()


@contextmanager
def _event_listener(product: Product) -> Iterator[list[str]]:
    """Celery's events as Flower gets them."""
    heard: list[str] = []
    ready = threading.Event()
    with probe.app.connection_for_read(product.services.redis_url) as connection:
        receiver = probe.app.events.Receiver(connection, handlers={"*": lambda event: heard.append(json.dumps(event))})
        receiver.on_consume_ready = lambda *args, **kwargs: ready.set()
        thread = threading.Thread(target=receiver.capture, kwargs={"wakeup": False}, daemon=True)
        thread.start()
        assert ready.wait(30)
        yield heard
        receiver.should_stop = True
        thread.join(10)


def test_planted_secrets_are_found_nowhere_outside_the_database(fleet: Fleet, product: Product) -> None:
    with _wiretap(product) as commands, _event_listener(product) as events, product.redis() as broker:
        fleet.scheduler()
        jobs = [task.apply_async(PLAIN, NAMED, queue=f"secret{n}") for n, task in enumerate(TASKS)]
        late = probe.return_secrets.apply_async((), {**NAMED, "card": CARD}, queue="secret0", countdown=1)
        # Nobody consumes: each queue's first message stays in the broker, to be looked at.
        watch.comes_to(Status.DISPATCHED, *jobs)
        wait_until(
            lambda: all(broker.llen(f"celeriac.secret{n}") for n in range(3)), what="all messages are in the broker"
        )
        assert _leaks(_everything_in(broker)) == []

        queues = ",".join(f"secret{n}" for n in range(3))
        worker = fleet.worker(queues, 2, extra=["-l", "DEBUG"])
        assert watch.all_ended([*jobs, late]) == {"SUCCEEDED": 2, "FAILED": 1, "DEAD_LETTER": 1}
        # Two runs each of what was tried again: their events are the last to come.
        wait_until(
            lambda: sum('"task-failed"' in event for event in events) == 2,
            what="all events have come",
            timeout=20,
            dump=lambda: "\n".join(events) + fleet.logs(),
        )
        assert _leaks(_everything_in(broker)) == []

    said = {
        kind: sum(f'"{kind}"' in event for event in events)
        for kind in ("task-received", "task-succeeded", "task-retried")
    }
    assert said == {"task-received": 5, "task-succeeded": 2, "task-retried": 1}
    assert any("LPUSH" in command and "celeriac.secret0" in command for command in commands)
    assert _leaks("\n".join(events)) == []
    assert _leaks("\n".join(commands)) == []
    for member in fleet.members:
        assert _leaks(member.text()) == [], member.name
    # They were there to be leaked: the log has the lines, the ledger has the values.
    assert "printed:" in worker.text()
    assert "logged:" in worker.text()
    assert "refused for" in worker.text()
    assert jobs[0].get()["secrets"] == list(PLAIN)
    assert set(_leaks(Job.objects.get(seq=watch.job(jobs[0]).seq).payload)) >= set(PLAIN)


def test_error_events_and_dead_letters_are_masked_in_the_ledger_too() -> None:
    letter = DeadLetter.objects.open().get(task_type="tests.support.probe.raise_secrets_again")

    assert _leaks(f"{letter.message} {letter.traceback} {letter.args_repr}") == []
    assert letter.message.startswith("refused for ")
    assert _leaks(" ".join(watch.messages(letter.job.public_id))) == []
