"""The servers that demo, tests and benches start for themselves."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from tasks.demo import scratch
from tasks.demo.services import NotOurs, Services
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

# An owner in a process of its own: it says what it started and waits.
OWNER = """
import os, sys, threading
from tasks.demo import scratch
from tasks.demo.services import Services
services = Services(environ={}, fsync=False)
starter = threading.Thread(target=services.start)
starter.start()
starter.join()
print(services.postgres.pid, services.redis.pid, services._scratch.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def own() -> Iterator[Services]:
    with Services(environ={}, fsync=False) as services:
        yield services


def _ask(url: str) -> object:
    with psycopg.connect(url, connect_timeout=2) as session:
        row = session.execute("SELECT 1").fetchone()
        return row and row[0]


def test_both_addresses_of_the_database_answer(own: Services) -> None:
    assert _ask(own.database_url) == 1
    assert _ask(own.tcp_database_url) == 1


def test_over_the_network_the_password_is_wanted(own: Services) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"password|fe_sendauth"):
        _ask(own.tcp_database_url.replace(own.tcp_database_url.split("@")[0], "postgres://celeriac:wrong"))
    with (
        redis.Redis(port=int(own.redis_url.rpartition(":")[2].split("/")[0])) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()


def test_nobody_else_may_enter_the_socket_directory(own: Services) -> None:
    with psycopg.connect(own.database_url) as session:
        mode = Path(session.info.host).stat().st_mode
    assert stat.S_IMODE(mode) == 0o700


def test_no_password_is_among_the_arguments(own: Services) -> None:
    secrets = (own.redis_url.split("@")[0].rpartition(":")[2], own.tcp_database_url.split("@")[0].rpartition(":")[2])
    for pid in (own.postgres.pid, own.redis.pid):
        assert not any(secret in " ".join(psutil.Process(pid).cmdline()) for secret in secrets)


def test_a_restarted_database_keeps_its_address_and_its_data(own: Services) -> None:
    with psycopg.connect(own.database_url) as session:
        session.execute("CREATE TABLE kept (id int)")
    own.restart_postgres(immediate=True)
    with psycopg.connect(own.database_url) as session:
        session.execute("SELECT id FROM kept")


def test_a_restarted_redis_keeps_its_address_and_nothing_else(own: Services) -> None:
    with redis.Redis.from_url(own.redis_url) as client:
        client.set("kept", "no")
        own.stop_redis()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        own.start_redis()
        assert client.get("kept") is None


def test_a_paused_server_answers_nothing_until_it_goes_on(own: Services) -> None:
    with (
        psycopg.connect(own.database_url) as session,
        redis.Redis.from_url(own.redis_url, socket_timeout=0.3) as client,
    ):
        own.pause_postgres()
        own.pause_redis()
        try:
            with pytest.raises(psycopg.OperationalError):
                _ask(own.database_url)
            with pytest.raises(redis.TimeoutError):
                client.ping()
        finally:
            own.resume_postgres()
            own.resume_redis()
        assert session.execute("SELECT 1").fetchone() == (1,)
        assert client.ping()


def test_a_database_is_copied_from_a_template_and_dropped_under_its_users(own: Services) -> None:
    with psycopg.connect(own.create_database("a template")) as session:
        session.execute("CREATE TABLE copied (id int)")
    with closing(psycopg.connect(own.create_database("a copy", template="a template"))) as session:
        session.execute("SELECT id FROM copied")
        own.drop_database("a copy")
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT id FROM copied")
    own.drop_database("a template")


def test_servers_that_the_environment_names_are_used_and_not_ours_to_stop(own: Services) -> None:
    with Services(environ=own.env()) as guest:
        assert guest.env() == own.env()
        with pytest.raises(NotOurs):
            guest.stop_postgres()
        with pytest.raises(NotOurs):
            guest.pause_redis()
    assert _ask(own.database_url) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal to orphans is Linux's")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "asked"])
def test_servers_end_with_their_owner(how: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    postgres, redis_server, folder = owner.stdout.readline().split()
    # The thread that started them has ended by now; they live on, for it is the process that counts.
    assert _lives(int(postgres))
    assert _lives(int(redis_server))
    owner.send_signal(how)
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()
    wait_until(lambda: not _lives(int(postgres)) and not _lives(int(redis_server)), what="both servers ended")
    assert Path(folder).exists()  # nobody was left to remove it


def test_folders_of_owners_that_were_killed_are_removed_by_the_next(tmp_path: Path) -> None:
    left, young = tmp_path / "celeriac-left", tmp_path / "celeriac-young"
    for folder in (left, young):
        folder.mkdir()
        (folder / "owner.lock").touch()
    os.utime(left / "owner.lock", (0, 0))
    scratch.remove_leftovers(tmp_path)
    assert not left.exists()
    assert young.exists()


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
