"""Start processes that die with us, and stop those that we started: never anybody else's.

A child is ended in one of three ways: `stop()` asks and then insists; the interpreter's exit runs `stop()` for those
still alive (see the owners' `atexit`); and when we are killed without a word the kernel signals the child
(`PR_SET_PDEATHSIG`, Linux). That signal follows the *thread* that started the child, not the process, so every child
is started by one thread that lives as long as the process.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import IO, Any

_PR_SET_PDEATHSIG = 1
# Loaded here: between fork and exec nothing may be imported.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

_Work = tuple[Callable[[], Any], "Future[Any]"]
_work: SimpleQueue[_Work] = SimpleQueue()
_starter: Thread | None = None
_starter_lock = Lock()


def _start_what_is_asked() -> None:
    while True:
        call, answer = _work.get()
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)


def _in_starter_thread(call: Callable[[], Any]) -> Any:
    global _starter
    with _starter_lock:
        # A fork of this process has our variables but not our threads.
        if _starter is None or not _starter.is_alive():
            _starter = Thread(target=_start_what_is_asked, name="celeriac-starter", daemon=True)
            _starter.start()
    answer: Future[Any] = Future()
    _work.put((call, answer))
    return answer.result()


def _die_with(owner: int, death_signal: int) -> Callable[[], None] | None:
    if _libc is None:
        return None

    def before_exec() -> None:
        # Runs after the change of user, which would have cleared the setting.
        _libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != owner:  # the owner died before the line above
            os._exit(1)

    return before_exec


def start(
    args: Sequence[str | Path],
    *,
    log: Path | IO[bytes] | None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user: int | None = None,
    group: int | None = None,
    stdin: bytes | None = None,
    death_signal: int = signal.SIGTERM,
    own_session: bool = True,
    pipe_stdout: bool = False,
) -> "subprocess.Popen[bytes]":
    """Start a program and return its process.

    `log` takes standard output and error (a path is appended to; None: they stay ours); `pipe_stdout` keeps
    standard output for the caller to read. `stdin` is written and closed. With `own_session` a Ctrl-C at the terminal
    reaches only us, so that we decide the order in which things stop. `user` and `group` are ids to run as. Raises
    OSError as exec gives it.
    """
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(log.open("ab")) if isinstance(log, Path) else log
        popen_args: dict[str, Any] = {
            "args": [str(arg) for arg in args],
            "stdin": subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            "stdout": subprocess.PIPE if pipe_stdout else sink,
            "stderr": sink,
            "env": None if env is None else dict(env),
            "cwd": cwd,
            "start_new_session": own_session,
            "preexec_fn": _die_with(os.getpid(), death_signal),
        }
        if user is not None:
            popen_args |= {"user": user, "group": group, "extra_groups": []}
        process: subprocess.Popen[bytes] = _in_starter_thread(lambda: subprocess.Popen(**popen_args))
    if stdin is not None:
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(stdin)
    return process


def stop(
    process: "subprocess.Popen[bytes]", *, grace: float, ask: int = signal.SIGTERM, whole_group: bool = False
) -> int:
    """Ask the process to end, insist after `grace` seconds, and return its exit status.

    With `whole_group` what it left behind in its own session's process group is killed as well.
    """
    if process.poll() is None:
        process.send_signal(ask)
    return _see_off(process, grace, whole_group)


def stop_all(processes: "Sequence[subprocess.Popen[bytes]]", *, grace: float) -> None:
    """Ask all to end at once, insist after `grace` seconds in all, and kill what they left behind in their groups."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + grace
    for process in processes:
        _see_off(process, max(0.0, deadline - time.monotonic()), whole_group=True)


def _see_off(process: "subprocess.Popen[bytes]", grace: float, whole_group: bool) -> int:
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
    if whole_group:
        # The group keeps the leader's id for as long as any member lives, so this reaches nobody else.
        # macOS says EPERM of a group that has only just ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()
