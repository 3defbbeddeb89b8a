"""The whole product as processes: web, schedulers, a worker a queue, Flower, and the shop's third parties.

Needs a Django that is set up on the services it is to run with. Each process leads a group of its own and writes a log
of its own; they are started in an order in which each finds what it needs, waited for by what only a ready one does,
and stopped in the reverse order.
"""

import os
import secrets
import selectors
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from django.contrib.auth import get_user_model

from celeriac.models import Lease, Worker
from tasks.demo import children, ports
from tasks.queues import CONCURRENCY

ROOT: Final = Path(__file__).resolve().parents[2]
READY_LIMIT: Final = 120.0  # seconds; two cores need about ten for everything
STOP_GRACE: Final = 15.0  # seconds
WEB_PORT: Final = 8000
FLOWER_PORT: Final = 5555
ADMIN: Final = "admin"
FLOWER_USER: Final = "flower"


class NotReady(Exception):
    """A part of the product did not come up, or ended while it was wanted. Holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Part:
    """One running process."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    args: tuple[str, ...] = ()
    started_anew: bool = False
    """Whether it is started anew when it ends, as a supervisor would: the product's own processes are there to be killed."""

    def tail(self, lines: int = 20) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def insist_it_lives(self) -> None:
        """Raise NotReady if it has ended."""
        status = self.process.poll()
        if status is not None:
            raise NotReady(f"{self.name} ended with status {status}; the end of {self.log}:\n{self.tail()}")


class Stack:
    """A context manager: inside it the product is up, afterwards all of it is gone.

    `folder` takes the logs. `concurrency` says how many jobs of each queue run at once (default: the shop's own).
    """

    def __init__(
        self,
        folder: Path,
        *,
        web: bool = True,
        flower: bool = True,
        schedulers: int = 2,
        concurrency: Mapping[str, int] = CONCURRENCY,
    ) -> None:
        self.folder = folder
        self.admin_password = secrets.token_urlsafe(12)
        self.flower_password = secrets.token_urlsafe(12)
        self.web_url = ""
        self.flower_url = ""
        self._web, self._flower, self._schedulers = web, flower, schedulers
        self._concurrency = dict(concurrency)
        self._parts: list[Part] = []
        self._env: dict[str, str] = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "CELERIAC_SPOOL_DIR": str(folder / "spool"),
            # A demo that is told to stop should; running jobs are handed back.
            "CELERIAC_STOP_GRACE": os.environ.get("CELERIAC_STOP_GRACE", "5"),
        }

    def start(self) -> Self:
        """Bring everything up and return when all of it is ready. Raises NotReady, with nothing left running."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End every process: asked at once, last started first, then made to. A second call does nothing."""
        parts, self._parts = reversed(self._parts), []
        children.stop_all([part.process for part in parts], grace=STOP_GRACE)

    def insist_it_lives(self) -> None:
        """Raise NotReady if any process has ended."""
        for part in self._parts:
            part.insist_it_lives()

    def look_after(self, say: Callable[[str], None]) -> None:
        """Start workers and schedulers anew that have ended, and tell; raise NotReady if anything else has."""
        for position, part in enumerate(self._parts):
            status = part.process.poll()
            if status is None:
                continue
            if not part.started_anew:
                part.insist_it_lives()
            say(f"{part.name} ended with status {status}; started anew")
            process = children.start(
                [sys.executable, *part.args], log=part.log, env=self._env, cwd=ROOT, pipe_stdout=False
            )
            self._parts[position] = replace(part, process=process)

    def manage(self, *args: str) -> "subprocess.CompletedProcess[str]":
        """Run a management command to its end and return what it said."""
        return subprocess.run(
            [sys.executable, "manage.py", *args], check=False, cwd=ROOT, env=self._env, capture_output=True, text=True
        )

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # The third parties know nothing of the database, so they come up while it is migrated.
        simulator = self._run("simulator", "-m", "tasks.demo.simulator", "--port", "0", announces=True)
        smtp = self._run(
            "smtp", "-m", "tasks.demo.smtp", "--port", "0", "--store", str(self.folder / "mail.jsonl"), announces=True
        )
        self._migrate()
        self._env["SHOP_THIRD_PARTY_URL"] = self._announced(simulator)
        mail_host, _, mail_port = self._announced(smtp).removeprefix("smtp://").rpartition(":")
        self._env |= {"EMAIL_HOST": mail_host, "EMAIL_PORT": mail_port}
        if self._flower:
            flower_port = ports.free(FLOWER_PORT)
            self.flower_url = f"http://{ports.LOOPBACK}:{flower_port}"
            self._env["CELERIAC_FLOWER_URL"] = self.flower_url
        for number in range(1, self._schedulers + 1):
            self._celery(f"scheduler{number}", "scheduler")
        workers = [
            self._celery(f"worker-{queue}", "worker", "-Q", queue, "-c", str(slots), "-n", f"{queue}@%h", "-l", "INFO")
            for queue, slots in {**self._concurrency, "default": self._concurrency.get("default", 2)}.items()
        ]
        if self._web:
            self._start_web()
        if self._flower:
            self._start_flower(flower_port)
        self._wait_until_ready(workers)

    def _migrate(self) -> None:
        done = self.manage("migrate", "--no-input", "-v", "0")
        if done.returncode:
            raise NotReady(f"manage.py migrate failed:\n{done.stdout}{done.stderr}")
        # A database that was given to us may know the user already; a new password makes what we print true.
        people = get_user_model()._default_manager
        admin, _ = people.get_or_create(
            **{people.model.USERNAME_FIELD: ADMIN}, defaults={"is_staff": True, "is_superuser": True}
        )
        admin.set_password(self.admin_password)
        admin.save()

    def _start_web(self) -> None:
        port = ports.free(WEB_PORT)
        self.web_url = f"http://{ports.LOOPBACK}:{port}"
        self._run("web", "manage.py", "runserver", "--noreload", f"{ports.LOOPBACK}:{port}")

    def _start_flower(self, port: int) -> None:
        # Options come by the environment: arguments are there for every user of the machine to read.
        self._env |= {
            "FLOWER_ADDRESS": ports.LOOPBACK,
            "FLOWER_PORT": str(port),
            "FLOWER_BASIC_AUTH": f"{FLOWER_USER}:{self.flower_password}",
        }
        self._celery("flower", "flower")

    def _wait_until_ready(self, workers: list[Part]) -> None:
        pids = {part.process.pid for part in workers}

        def workers_alive() -> bool:
            return Worker.objects.alive().filter(pid__in=pids, state=Worker.State.ALIVE).count() == len(pids)

        self._wait("the workers", workers_alive)
        self._wait("a leading scheduler", lambda: Lease.objects.filter(term__gt=0).exists())
        if self.web_url:
            self._wait("the web process", lambda: _answers(f"{self.web_url}/healthz"))
        if self.flower_url:
            self._wait("Flower", lambda: _answers(f"{self.flower_url}/healthcheck"))

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_LIMIT
        while not ready():
            self.insist_it_lives()
            if time.monotonic() > deadline:
                tails = "\n".join(f"--- {part.log}\n{part.tail(8)}" for part in self._parts)
                raise NotReady(f"Waited {READY_LIMIT:g} s for {what}.\n{tails}")
            time.sleep(0.05)

    def _announced(self, part: Part) -> str:
        """Return the address in the line `ready ADDRESS` that the part prints once it listens."""
        pipe = part.process.stdout
        assert pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            said = pipe.readline().decode() if selector.select(READY_LIMIT) else ""
        word, _, address = said.strip().partition(" ")
        if word != "ready" or not address:
            raise NotReady(f"{part.name} said {said!r} instead of its address; the end of {part.log}:\n{part.tail()}")
        return address

    def _celery(self, name: str, *args: str) -> Part:
        return self._run(name, "-m", "celery", "-A", "tasks", *args, started_anew=True)

    def _run(self, name: str, *args: str, announces: bool = False, started_anew: bool = False) -> Part:
        log = self.folder / f"{name}.log"
        process = children.start([sys.executable, *args], log=log, env=self._env, cwd=ROOT, pipe_stdout=announces)
        part = Part(name, process, log, args, started_anew)
        self._parts.append(part)
        return part

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 -- an address on loopback that we made
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
