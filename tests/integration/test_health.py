"""`celeriac health` over a real ledger, as an orchestrator calls it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from celeriac import clock
from celeriac.guard import switches
from celeriac.ledger.dialects.postgres_fleet import SCHEDULER, SEATS, WITNESS
from celeriac.ledger.session import own_session
from celeriac.models import Lease, Worker
from celeriac.observe import health
from tests.support import letters
from tests.support.blackhole import black_hole

# The command asks on a session of its own, which sees only what is committed.
pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
HERE = socket.gethostname()


@pytest.fixture
def locks() -> Iterator[Any]:
    """A function that takes an advisory lock on a session that lasts as long as the test."""
    with ExitStack() as stack:

        def take(namespace: int, key: int) -> None:
            session = own_session("default")
            stack.callback(session.close)
            with session.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(%s, %s)", [namespace, key])

        yield take


def worker(hostname: str = "sms1@host", host: str = HERE, **fields: Any) -> Worker:
    on = letters.worker(hostname)
    Worker.objects.filter(pk=on.pk).update(host=host, **fields)
    return on


def scheduler(locks: Any, seat: int, holder: str) -> None:
    Lease.objects.create(name=f"seat-{seat}", term=1, holder=holder, renewed_at=timezone.now())
    locks(SEATS, seat)


def asked(*args: str) -> tuple[int, dict[str, Any]]:
    """The exit code and what the command says."""
    out, code = StringIO(), 0
    try:
        call_command("celeriac", "health", *args, "--json", stdout=out)
    except SystemExit as ended:
        code = int(str(ended.code))
    said = json.loads(out.getvalue())
    assert said["healthy"] is (code == 0)
    return code, said


def reasons(said: dict[str, Any]) -> str:
    return "\n".join(f"{check['what']}: {check['reason']}" for check in said["checks"] if not check["healthy"])


# ---- a worker --------------------------------------------------------------------------------------------------------


def test_a_busy_worker_passes_its_probe() -> None:
    worker(free=0)
    code, said = asked("worker")
    assert (code, said["status"]) == (0, "healthy")
    assert "0 of 2 slots free" in said["checks"][0]["reason"]


def test_a_silent_worker_passes_only_while_its_lock_is_held_and_not_for_long(locks: Any) -> None:
    worker(lock_key=-4711)
    with clock.shift(3):
        assert "its lock is free" in reasons(asked("worker")[1])
        locks(WITNESS, -4711)
        assert asked("worker")[0] == 0
    with clock.shift(6):
        assert "silent" in reasons(asked("worker")[1])


def test_the_lock_of_a_key_that_is_wider_than_the_lock_counts(locks: Any) -> None:
    """Keys were 62 bits wide; PostgreSQL keeps the lower half."""
    worker(lock_key=(1 << 40) + 4711)
    locks(WITNESS, 4711)
    with clock.shift(3):
        assert asked("worker")[0] == 0


@pytest.mark.parametrize("state", ["deaf", "wedged"])
def test_a_worker_that_is_connected_and_does_nothing_fails_its_probe(state: str) -> None:
    worker(state=state)
    code, said = asked("worker")
    assert code == 1
    assert state in reasons(said)


def test_a_worker_may_start_for_a_minute() -> None:
    worker(state="starting")
    assert asked("worker")[0] == 0
    Worker.objects.update(started_at="2020-01-01T00:00:00Z")
    assert "not consuming" in reasons(asked("worker")[1])


def test_only_workers_of_this_host_that_live_are_judged() -> None:
    worker("a@x", host="elsewhere", state="deaf")
    worker("b@x", state="gone", ended_at=timezone.now())
    assert "no incarnation" in reasons(asked("worker")[1])
    worker("c@x")
    assert asked("worker")[0] == 0


def test_a_node_is_asked_for_by_its_name() -> None:
    worker("a@x")
    worker("b@x", state="deaf")
    assert asked("worker")[0] == 1
    assert asked("worker", "--name", "a@x")[0] == 0
    assert asked("worker", "--name", "b@x")[0] == 1
    assert "node c@x" in reasons(asked("worker", "--name", "c@x")[1])
    with pytest.raises(CommandError, match="--name is for worker"):
        call_command("celeriac", "health", "all", "--name", "a@x")


# ---- a scheduler -----------------------------------------------------------------------------------------------------


def test_a_scheduler_of_this_host_that_sits_and_goes_round_is_healthy(locks: Any) -> None:
    assert asked("scheduler")[0] == 1
    scheduler(locks, 1, "elsewhere:1")
    assert "no scheduler" in reasons(asked("scheduler")[1])
    scheduler(locks, 2, f"{HERE}:4711")
    assert asked("scheduler")[0] == 0
    with clock.shift(6):
        assert "stands still" in reasons(asked("scheduler")[1])


def test_a_seat_that_is_only_booked_is_no_scheduler() -> None:
    Lease.objects.create(name="seat-1", term=1, holder=f"{HERE}:4711", renewed_at=timezone.now())
    assert asked("scheduler")[0] == 1


# ---- the platform ----------------------------------------------------------------------------------------------------


@pytest.fixture
def platform(locks: Any) -> None:
    """A leader with a standby, and a worker for `sms`."""
    letters.lease()
    Lease.objects.update(holder="a:1")
    locks(SCHEDULER, letters.TERM)
    scheduler(locks, 1, "a:1")
    scheduler(locks, 2, "b:1")
    worker(host="elsewhere")


@pytest.mark.usefixtures("platform")
def test_the_platform_is_healthy_with_a_leader_a_standby_and_a_consumer_for_what_is_due() -> None:
    letters.accept()
    code, said = asked("all")
    assert (code, reasons(said)) == (0, "")
    assert [check["what"].split()[0] for check in said["checks"]] == ["leader", "standby", "worker", "queue"]


@pytest.mark.usefixtures("platform")
def test_what_is_due_on_a_queue_without_a_worker_is_found_also_in_the_broker() -> None:
    letters.accept(queue="later", delay=3600.0)
    assert asked("all")[0] == 0
    letters.accept(queue="email")
    job = letters.accept(queue="push", task_type="shop.push")
    letters.dispatch(job)
    Lease.objects.filter(name="scheduler").update(holder="a:1")
    assert reasons(asked("all")[1]).splitlines() == [
        "queue email: jobs are due and no worker consumes it",
        "queue push: jobs are due and no worker consumes it",
    ]
    switches.turn("queue", "email", on=False, actor="amy", reason="no workers yet")
    switches.turn("type", "shop.push", on=False, actor="amy", reason="no workers yet")
    assert asked("all")[0] == 0


@pytest.mark.usefixtures("platform")
def test_a_worker_that_fails_fails_the_platform_wherever_it_is() -> None:
    Worker.objects.update(state="wedged")
    assert "wedged" in reasons(asked("all")[1])


def test_a_platform_that_nobody_leads_is_unhealthy(locks: Any) -> None:
    assert "no scheduler has ever led" in reasons(asked("all")[1])
    letters.lease()
    assert "its lock is free" in reasons(asked("all")[1])
    locks(SCHEDULER, letters.TERM)
    assert asked("all")[0] == 0
    with clock.shift(6):
        assert "stands still" in reasons(asked("all")[1])


def test_without_json_it_is_told_in_lines() -> None:
    worker()
    out = StringIO()
    call_command("celeriac", "health", "worker", stdout=out)
    assert out.getvalue().splitlines()[0] == "healthy"
    assert "ok" in out.getvalue().splitlines()[1]


# ---- the database is away ----------------------------------------------------------------------------------------------


def probe(what: str, database: str) -> tuple[int, dict[str, Any], float]:
    """As an orchestrator calls it: a process of its own. Exit code, what it says, seconds."""
    environ = {**os.environ, "DATABASE_URL": f"postgres://celeriac@{database}/celeriac"}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "manage.py", "celeriac", "health", what, "--json"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), time.monotonic() - began


@pytest.mark.parametrize(("what", "code"), [("worker", 0), ("scheduler", 0), ("all", 1)])
def test_a_database_that_refuses_fails_no_process(what: str, code: int) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        ended, said, _seconds = probe(what, f"127.0.0.1:{reserved.getsockname()[1]}")
    assert (ended, said["status"]) == (code, "unknown")
    assert said["checks"][0]["reason"].startswith(health.AWAY)


def test_a_database_that_never_answers_holds_up_no_probe() -> None:
    with black_hole() as nowhere:
        ended, said, seconds = probe("worker", nowhere)
    assert (ended, said["status"]) == (0, "unknown")
    assert seconds < health.BUDGET + 6


def test_a_statement_that_takes_too_long_is_given_up() -> None:
    worker()
    blocker = own_session("default")
    blocker.set_autocommit(False)
    try:
        with blocker.cursor() as cursor:
            cursor.execute("LOCK TABLE celeriac_worker IN ACCESS EXCLUSIVE MODE")
        report = health.ask("worker", host=HERE, budget=0.5)
    finally:
        blocker.rollback()
        blocker.close()
    assert (report.healthy, report.status) == (True, "unknown")


def test_a_fault_of_ours_is_not_taken_for_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(health, "_look", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        health.ask("worker", host=HERE)
