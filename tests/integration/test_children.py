"""Processes that the demo and the tests start, and end."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tasks.demo import children, ports
from tests.support.waiting import wait_until

# Says that it is ready once a signal would find it prepared.
DEAF = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


def _deaf() -> "subprocess.Popen[bytes]":
    process = children.start([sys.executable, "-c", DEAF], log=None, pipe_stdout=True)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"up\n"
    return process


def test_a_process_that_does_as_it_is_told_is_not_killed() -> None:
    process = children.start([sys.executable, "-c", "import time; time.sleep(600)"], log=None)
    assert children.stop(process, grace=30) == -signal.SIGTERM


def test_a_process_that_is_deaf_is_killed_after_its_grace() -> None:
    begin = time.monotonic()
    assert children.stop(_deaf(), grace=0.2) == -signal.SIGKILL
    assert time.monotonic() - begin >= 0.2


def test_what_a_process_leaves_behind_goes_with_its_group(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = children.start(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {DEAF!r}]); time.sleep(600)",
        ],
        log=log,
    )
    wait_until(lambda: log.exists() and "up" in log.read_text(), what="the grandchild is up")
    (grandchild,) = psutil.Process(process.pid).children()
    children.stop(process, grace=30, whole_group=True)
    wait_until(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


def test_what_is_written_to_its_input_arrives_and_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = children.start([sys.executable, "-c", "import sys; print(sys.stdin.read()[::-1])"], log=log, stdin=b"abc")
    assert process.wait(30) == 0
    assert log.read_text() == "cba\n"


def test_a_taken_port_is_passed_over() -> None:
    taken = ports.Reserved()
    try:
        assert ports.free(taken.number) != taken.number
    finally:
        taken.release()
