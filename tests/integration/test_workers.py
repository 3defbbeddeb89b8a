"""`celeriac workers` and `celeriac status`: who is there, in which state, and draining them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from celeriac import events
from celeriac.guard import drains
from celeriac.ledger.dialects.postgres_fleet import SEATS
from celeriac.ledger.session import own_session
from celeriac.models import Control, Lease, Live, Worker
from celeriac.models.live import RESCUED_PRIORITY
from tests.support import letters

pytestmark = pytest.mark.django_db


def said(*args: str) -> str:
    out = StringIO()
    call_command("celeriac", *args, stdout=out)
    return out.getvalue()


def told_to_drain(on: Worker) -> bool:
    return on.pk in drains.asked([on.pk])


# ---- the list --------------------------------------------------------------------------------------------------------


def test_each_worker_is_told_with_its_state_host_slots_and_memory() -> None:
    on = letters.worker()
    Worker.objects.update(host="box7", state="deaf", free=1, rss=123 * 2**20, refused=3)
    line = said("workers").strip()
    for part in ("deaf", "sms1@host", "box7", "pid 4711", "1/2 free", "123 MB", "3 refused", "sms", str(on.pk)):
        assert part in line


def test_what_has_ended_is_told_with_its_verdict_when_asked_for() -> None:
    letters.worker()
    Worker.objects.update(state="gone", ended_at=timezone.now(), verdict="gone: its lock is free")
    assert said("workers").strip() == "No worker is alive."
    assert "gone: its lock is free" in said("workers", "--all")


def test_the_list_as_json_has_every_reading() -> None:
    on = letters.worker()
    drains.begin(on.pk, actor="amy", reason="deploy")
    (told,) = json.loads(said("workers", "--json"))
    assert (told["id"], told["name"], told["state"]) == (str(on.pk), "sms1@host", "alive")
    assert told["rss"] is None
    assert told["told_to_drain"] is True
    assert {"host", "free", "slots", "refused", "verdict"} <= told.keys()


# ---- drain and resume ------------------------------------------------------------------------------------------------


def test_a_node_name_drains_all_its_living_incarnations_and_nobody_else() -> None:
    first, second, other = letters.worker(), letters.worker(), letters.worker("mail1@host")
    ended = letters.worker()
    Worker.objects.filter(pk=ended.pk).update(ended_at=timezone.now())

    out = said("workers", "drain", "sms1@host", "--reason", "new kernel")

    assert told_to_drain(first)
    assert told_to_drain(second)
    assert not told_to_drain(other)
    assert not told_to_drain(ended)
    assert str(first.pk)[:8] in out
    row = Control.objects.get(key=f"drain:worker:{first.pk}")
    assert (row.value, row.version, row.reason) == (True, 1, "new kernel")
    assert row.actor


def test_an_incarnation_is_named_by_the_beginning_of_its_id() -> None:
    on, other = letters.worker(), letters.worker()
    said("workers", "drain", str(on.pk)[:8].upper())
    assert told_to_drain(on)
    assert not told_to_drain(other)


def test_a_drain_is_taken_back_with_a_new_version() -> None:
    on = letters.worker()
    assert "isn't draining" in said("workers", "resume", "sms1@host")
    said("workers", "drain", "sms1@host")
    said("workers", "resume", str(on.pk), "--reason", "not yet")
    assert not told_to_drain(on)
    row = Control.objects.get(key=f"drain:worker:{on.pk}")
    assert (row.value, row.version, row.reason) == (False, 2, "not yet")


def test_what_is_no_living_worker_is_refused_with_those_that_are() -> None:
    letters.worker("mail1@host")
    ended = letters.worker()
    Worker.objects.filter(pk=ended.pk).update(ended_at=timezone.now(), state="stopped")
    for name, words in (
        ("sms1@host", "the last one ended .* \\(stopped\\). Alive: mail1@host"),
        (str(ended.pk), "the last one ended"),
        ("nobody", "No worker called 'nobody' is alive. Alive: mail1@host"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command("celeriac", "workers", "drain", name)
    with pytest.raises(CommandError, match="Say which worker"):
        call_command("celeriac", "workers", "drain")
    with pytest.raises(CommandError, match="--wait is for drain"):
        call_command("celeriac", "workers", "resume", "mail1@host", "--wait", "1")
    assert not Control.objects.exists()


def test_the_beginning_of_an_id_has_to_be_long_enough_and_of_one_worker() -> None:
    on = letters.worker()
    twin = letters.worker()
    Worker.objects.filter(pk=twin.pk).update(id=f"{str(on.pk)[:-1]}{'0' if str(on.pk)[-1] != '0' else '1'}")
    with pytest.raises(CommandError, match="give more of it"):
        call_command("celeriac", "workers", "drain", str(on.pk)[:20])
    Worker.objects.exclude(pk=on.pk).delete()
    with pytest.raises(CommandError, match="at least 4 characters"):
        call_command("celeriac", "workers", "drain", str(on.pk)[:3])
    assert not told_to_drain(on)


def test_a_drain_is_published() -> None:
    on = letters.worker()
    heard: list[events.Event] = []
    unsubscribe = events.subscribe(heard.append)
    try:
        drains.begin(on.pk, actor="amy", reason="deploy")
    finally:
        unsubscribe()
    assert [(e.name, e.fields["worker"], e.fields["target"]) for e in heard] == [
        ("switch.changed", str(on.pk), "off"),
    ]


# ---- waiting for the end ---------------------------------------------------------------------------------------------


def test_waiting_ends_with_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    letters.worker()
    looks: list[object] = []
    look = drains.asked

    def look_and_end(workers: Iterable[uuid.UUID]) -> dict[uuid.UUID, Control]:
        looks.append(workers)
        if len(looks) == 2:
            Worker.objects.update(state="stopped", ended_at=timezone.now())
        return look(workers)

    monkeypatch.setattr(drains, "asked", look_and_end)
    assert "has ended (stopped)" in said("workers", "drain", "sms1@host", "--wait", "30")
    assert len(looks) == 2


def test_a_worker_that_is_not_ready_in_time_fails_the_wait_and_says_what_runs() -> None:
    on = letters.worker()
    letters.claim(letters.accept(), on)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("celeriac", "workers", "drain", "sms1@host", "--wait", "0", stdout=out)
    assert ended.value.code == 1
    assert "1 job(s) still run there" in out.getvalue()


def test_a_drain_that_somebody_takes_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    letters.worker()
    out = StringIO()
    monkeypatch.setattr(drains, "asked", lambda workers: {})
    with pytest.raises(SystemExit):
        call_command("celeriac", "workers", "drain", "sms1@host", "--wait", "30", stdout=out)
    assert "Somebody resumed" in out.getvalue()


# ---- status ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def standby() -> Iterator[None]:
    """A second scheduler, on seat 2."""
    Lease.objects.create(name="seat-1", term=1, holder="gone:1", renewed_at=timezone.now())
    Lease.objects.create(name="seat-2", term=1, holder="b:7", renewed_at=timezone.now())
    session = own_session("default")
    with session.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, 2)", [SEATS])
    yield
    session.close()


@pytest.mark.usefixtures("standby")
def test_status_tells_workers_with_their_state_the_leader_and_who_stands_ready() -> None:
    letters.worker()
    letters.worker("mail1@host", ["email"])
    Worker.objects.filter(hostname="mail1@host").update(state="wedged")
    letters.lease()

    told = json.loads(said("status", "--json"))
    assert {w["name"]: w["state"] for w in told["workers"]} == {"sms1@host": "alive", "mail1@host": "wedged"}
    assert told["leader"] == "scheduler1, term 1"
    assert told["standbys"] == [{"holder": "b:7", "seat": "seat-2"}]
    assert {q["name"]: q["slots"] for q in told["queues"]} == {"sms": 2}
    text = said("status")
    assert "stands ready: b:7 (seat-2)" in text
    assert "wedged   mail1@host" in text


def test_status_counts_suspects_and_what_was_rescued() -> None:
    letters.accept()
    letters.accept()
    Live.objects.filter(pk=Live.objects.order_by("pk").first().pk).update(suspicion=1, priority=RESCUED_PRIORITY)

    (queue,) = json.loads(said("status", "--json"))["queues"]
    assert (queue["due"], queue["suspects"], queue["rescued"]) == (2, 1, 1)
    assert "1 rescued, next to start   1 suspected" in said("status")
    assert "nobody, start a second one" in said("status")
