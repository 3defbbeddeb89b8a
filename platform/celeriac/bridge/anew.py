"""A worker that starts over: the same process executes itself, as a new incarnation.

For when nothing that this process holds is worth anything any more: it was given up, or its main loop or its broker connection is beyond
repair, or a run is stuck in a pool that can't kill it. ``exec`` needs nobody's cooperation, and no supervisor: threads, locks and sessions are
gone at once, the process id stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from celery.utils.log import get_logger

from celeriac.bridge import command

logger = get_logger(__name__)

#: Seconds. A child that the kernel holds for longer (in a disk's driver) is dead to us, and stays a line in the process table.
REAP_FOR: Final = 5.0


def can_start_anew() -> bool:
    """Whether this process is one that its command line describes: not a worker that a test or a program started in a thread."""
    return threading.current_thread() is threading.main_thread() and len(sys.orig_argv) > 1


def start_anew(children: Collection[int]) -> None:
    """Kill *children* and whoever else is our child (an embedded beat), and execute this process's own command line again. Doesn't return."""
    _end(children)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os.execve(sys.executable, command.again(sys.orig_argv), command.environment())  # noqa: S606


def _end(children: Collection[int]) -> None:
    """The new image knows nothing of our children: none is left to it, neither alive nor dead and waiting.

    Looked for again and again: the main loop goes on while we are at it, and fills the places in its pool.
    """
    until = time.monotonic() + REAP_FOR
    while time.monotonic() < until:
        for pid in {*children, *_children()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        children = ()  # reaped, their numbers may become somebody else's
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _children() -> list[int]:
    """All our children that Linux knows of; elsewhere none."""
    found = []
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in listed.read_text().split()]
    return found
