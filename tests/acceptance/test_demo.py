"""`manage.py demo`, as somebody runs it who has set up nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.fleet import ROOT
from tests.support.waiting import wait_until

LIMIT = 300.0  # seconds
KEYS = {
    "enqueued",
    "succeeded",
    "retried",
    "parked",
    "dead_lettered",
    "cancelled",
    "lost",
    "duplicated",
    "seconds",
}
# Nothing of the test session's own services: the demo has to find or start its own.
ENVIRON = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(("CELERIAC_", "CELERY_", "DJANGO_")) and key not in {"DATABASE_URL", "REDIS_URL"}
}


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@contextmanager
def _taken(*ports: int) -> Iterator[None]:
    with ExitStack() as stack:
        for port in ports:
            squatter = stack.enter_context(socket.socket())
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                squatter.bind(("127.0.0.1", port))
                squatter.listen()
            except OSError:
                continue  # somebody else has it, which is as good
        yield


@pytest.fixture
def demo(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A running demo that was asked to stay; its news are in tmp_path/news."""
    with (tmp_path / "news").open("w") as news:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--orders", "5"],
            cwd=ROOT,
            env={**ENVIRON, "PYTHONUNBUFFERED": "1"},
            stdout=news,
            stderr=subprocess.STDOUT,
            text=True,
        )
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT)


@pytest.mark.slow
def test_headless_it_ends_with_a_clean_summary_although_its_usual_ports_are_taken() -> None:
    with _taken(8000, 5555, 5432, 6379):
        ran = subprocess.run(
            [sys.executable, "manage.py", "demo", "--orders", "20", "--exit", "--seed", "7"],
            check=False,
            cwd=ROOT,
            env=ENVIRON,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    summary = json.loads(ran.stdout.splitlines()[-1])
    assert set(summary) == KEYS
    assert (summary["lost"], summary["duplicated"]) == (0, 0)
    assert summary["enqueued"] >= 20
    assert summary["enqueued"] == summary["succeeded"] + summary["dead_lettered"] + summary["cancelled"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_told_to_stop_it_leaves_no_process_behind(
    demo: "subprocess.Popen[str]", tmp_path: Path, how: signal.Signals
) -> None:
    news = tmp_path / "news"
    wait_until(
        lambda: demo.poll() is not None or "Placing" in news.read_text(), LIMIT, what="it is up", dump=news.read_text
    )
    assert demo.poll() is None, news.read_text()
    family = psutil.Process(demo.pid).children(recursive=True)
    assert len(family) > 20
    demo.send_signal(how)
    assert demo.wait(LIMIT) == 0
    assert [process for process in family if _lives(process)] == []


@pytest.mark.slow
def test_killed_without_a_word_it_takes_its_processes_along(demo: "subprocess.Popen[str]", tmp_path: Path) -> None:
    news = tmp_path / "news"
    wait_until(
        lambda: demo.poll() is not None or "Placing" in news.read_text(), LIMIT, what="it is up", dump=news.read_text
    )
    assert demo.poll() is None, news.read_text()
    family = psutil.Process(demo.pid).children(recursive=True)
    demo.kill()
    demo.wait()
    wait_until(lambda: not any(map(_lives, family)), what="all of its processes are gone")


def test_passwords_are_generated_and_never_among_a_processs_arguments(
    demo: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    news = tmp_path / "news"
    wait_until(
        lambda: demo.poll() is not None or "Placing" in news.read_text(), LIMIT, what="it is up", dump=news.read_text
    )
    passwords = [
        line.rpartition("password ")[2].strip() for line in news.read_text().splitlines() if "password " in line
    ]
    assert len(passwords) == 2
    assert len(set(passwords)) == 2
    assert all(len(password) >= 12 for password in passwords)
    said = [" ".join(process.cmdline()) for process in psutil.Process(demo.pid).children(recursive=True)]
    assert not any(password in arguments for password in passwords for arguments in said)
