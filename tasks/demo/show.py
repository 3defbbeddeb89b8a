"""The demo itself: bring the product up, place orders, watch, sum up. Needs a Django set up on its services."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tasks.demo import signals
from tasks.demo.orders import place
from tasks.demo.progress import Counts, Progress, Report
from tasks.demo.stack import ADMIN, FLOWER_USER, Stack

TRICKLE: Final = 2.0  # seconds between two orders, once those asked for are placed
LINE_EVERY: Final = 5.0  # seconds between two lines of counts where they can't be written over one another


@dataclass(frozen=True, slots=True)
class Wish:
    """What the demo is asked to do. `limit`: seconds that a headless one waits for its jobs."""

    orders: int
    seed: int
    headless: bool
    limit: float
    web: bool
    flower: bool


def run(wish: Wish, folder: Path, say: Callable[[str], None]) -> int:
    """Run the demo and return its exit status; `folder` takes the logs, `say` the news.

    Headless, the last line on standard output is the report as JSON, and the status is 0 only if all jobs settled,
    none was lost or duplicated, and the doctor found nothing. Otherwise it runs until KeyboardInterrupt. Either way
    everything that it started is gone when it returns or raises. A worker or scheduler that ends is
    started anew, as a supervisor would. Raises NotReady when a part does not come up, or another part ends.
    """
    stack = Stack(folder, web=wish.web, flower=wish.flower)
    say(f"Starting; logs are in {folder}")
    try:
        stack.start()
        if stack.web_url:
            say(f"Admin:  {stack.web_url}/admin/  user {ADMIN}, password {stack.admin_password}")
        if stack.flower_url:
            say(f"Flower: {stack.flower_url}/  user {FLOWER_USER}, password {stack.flower_password}")
        say(
            f"Another terminal: . {shlex.quote(str(_environment(folder)))} && .venv/bin/python manage.py celeriac status"
        )
        say(f"Placing {wish.orders} orders (seed {wish.seed})")
        progress = Progress()
        place(wish.orders, wish.seed)
        line = _Line()
        if not wish.headless:
            _trickle(stack, progress, line, wish.seed, say)
        report, clean = _conclude(stack, progress, line, wish.limit, say)
    finally:
        with signals.held_off():
            say("Stopping")
            stack.stop()
    print(json.dumps(report), flush=True)
    return 0 if clean else 1


def _environment(folder: Path) -> Path:
    """Write down, for this user alone, what a command needs to find the demo's services; a URL may hold a password."""
    path = folder / "env"
    values = {
        name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL") if name in os.environ
    }
    values["CELERIAC_SPOOL_DIR"] = str(folder / "spool")
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())
    return path


def _trickle(stack: Stack, progress: Progress, line: "_Line", seed: int, say: Callable[[str], None]) -> None:
    while True:
        stack.look_after(say)
        line.show(progress.counts())
        time.sleep(TRICKLE)
        seed += 1
        place(1, seed)


def _conclude(
    stack: Stack, progress: Progress, line: "_Line", limit: float, say: Callable[[str], None]
) -> tuple[Report, bool]:
    def meanwhile(counts: Counts) -> None:
        stack.look_after(say)
        line.show(counts)

    settled = progress.wait_until_settled(limit, meanwhile)
    line.end()
    if not settled:
        say(f"Not settled within {limit:g} s: {progress.counts().line()}")
    report = progress.report()
    doctor = stack.manage("celeriac", "doctor")
    say(f"Doctor: {(doctor.stdout or doctor.stderr).strip()}")
    clean = settled and not report["lost"] and not report["duplicated"] and doctor.returncode == 0
    return report, clean


class _Line:
    """A line of counts: written over on a terminal, elsewhere written now and then."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last = ""
        self._next = 0.0

    def show(self, counts: Counts) -> None:
        """Show the counts, if they are news."""
        text = counts.line()
        if text == self._last or (not self._terminal and time.monotonic() < self._next):
            return
        self._last, self._next = text, time.monotonic() + LINE_EVERY
        sys.stderr.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the line as it is and go to the next."""
        if self._terminal and self._last:
            sys.stderr.write("\n")
