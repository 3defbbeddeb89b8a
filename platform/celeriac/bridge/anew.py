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

logger = get_logger(__name__)

REAP_FOR: Final = 2.0


def can_start_anew() -> bool:
    """Whether this process is one that its command line describes: not a worker that a test or a program started in a thread."""
    return threading.current_thread() is threading.main_thread() and len(sys.orig_argv) > 1


def start_anew(children: Collection[int]) -> None:
    """Kill *children* and whoever else is our child (an embedded beat), and execute this process's own command line again. Doesn't return."""
    for pid in {*children, *_children()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _reap(time.monotonic() + REAP_FOR)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os.execv(sys.executable, [sys.executable, *_without_folder(sys.orig_argv[1:])])  # noqa: S606


def _children() -> list[int]:
    """All our children that Linux knows of; elsewhere none."""
    found = []
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in listed.read_text().split()]
    return found


def _reap(until: float) -> None:
    """The new image knows nothing of our children: those that are dead are waited for here."""
    while time.monotonic() < until:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            time.sleep(0.01)


def _without_folder(arguments: list[str]) -> list[str]:
    """We are in ``--workdir`` already; a relative one would be looked for inside of itself."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip or argument.startswith("--workdir="):
            skip = False
            continue
        if argument == "--workdir":
            skip = True
            continue
        kept.append(argument)
    return kept
