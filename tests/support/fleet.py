"""Real workers and schedulers of the product, started as an operator starts them."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from tasks.demo import children
from tests.support.processes import STOP_GRACE, Member
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
# What a scheduler logs when it is up (events.py), by the event's name or its words.
SCHEDULER_READY = re.compile(r"scheduler\.(leading|standby)|Took the lease|Another scheduler leads")

#: Options that save a second of a worker's start: nobody is greeted. For tests that start many.
QUICKLY = ("--without-mingle", "--without-gossip")

_numbers = count(1)


class Fleet:
    """Processes that share one database and one broker; all of them are gone when the context ends.

    `env` names the services, `folder` takes the logs, `app` is what `celery -A` is given.
    """

    def __init__(self, env: Mapping[str, str], folder: Path, *, app: str = "tasks") -> None:
        self.env = dict(env)
        self.folder = folder
        self.app = app
        self.members: list[Member] = []

    def worker(
        self,
        queues: str = "default",
        concurrency: int = 2,
        *,
        name: str | None = None,
        pool: str | None = None,
        extra: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        inside: Sequence[str] = (),
        wait: bool = True,
    ) -> Member:
        """Start `celery worker` for the queues (apart by commas) and return once it consumes.

        `inside` is what the command begins with to run on another host (tests/support/host.py).
        """
        name = name or f"{queues.split(',')[0]}{next(_numbers)}"
        args = ["worker", "-Q", queues, "-c", str(concurrency), "-n", f"{name}@%h", "-l", "INFO", *extra]
        if pool is not None:
            args += ["-P", pool]
        member = self.celery(name, args, env=env, inside=inside)
        if wait:
            self.wait_for_worker(member)
        return member

    def workers(self, *shapes: tuple[str, int], extra: Sequence[str] = ()) -> list[Member]:
        """Start one worker for each (queues, concurrency) at once and return when all are ready."""
        members = [self.worker(queues, concurrency, extra=extra, wait=False) for queues, concurrency in shapes]
        for member in members:
            self.wait_for_worker(member)
        return members

    def scheduler(
        self,
        *,
        name: str | None = None,
        extra: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> Member:
        """Start `celery scheduler` and return once it says that it leads or stands by."""
        name = name or f"scheduler{next(_numbers)}"
        member = self.celery(name, ["scheduler", *extra], env=env)
        if wait:
            self._wait(member, lambda: bool(SCHEDULER_READY.search(member.text())), "the scheduler is up")
        return member

    def celery(
        self, name: str, args: Sequence[str], *, env: Mapping[str, str] | None = None, inside: Sequence[str] = ()
    ) -> Member:
        """Start any `celery -A app …` command and return at once."""
        return self.python(name, ["-m", "celery", "-A", self.app, *args], env=env, inside=inside)

    def manage(self, name: str, args: Sequence[str], *, env: Mapping[str, str] | None = None) -> Member:
        """Start any `manage.py …` command and return at once."""
        return self.python(name, ["manage.py", *args], env=env)

    def python(
        self, name: str, args: Sequence[str], *, env: Mapping[str, str] | None = None, inside: Sequence[str] = ()
    ) -> Member:
        """Start the interpreter with these arguments and return at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{len(self.members):02d}-{name}.log"
        member = Member(name, [*inside, sys.executable, *args], env={**self.env, **(env or {})}, cwd=ROOT, log=log)
        self.members.append(member)
        return member

    def consumes(self, member: Member) -> bool:
        """Whether the process's incarnation is in the ledger and consumes."""
        from celeriac.models import Worker

        return Worker.objects.alive().filter(pid=member.pid, state=Worker.State.ALIVE).exists()

    def wait_for_worker(self, member: Member) -> None:
        """Return when it consumes."""
        self._wait(member, lambda: self.consumes(member), "the worker consumes")

    def logs(self, lines: int = 40) -> str:
        """The ends of all logs, for failure messages."""
        return "\n".join(member.tail(lines) for member in self.members)

    def stop(self) -> None:
        """End everything: asked first, all at once, then made to."""
        for member in self.members:
            member.thaw()
        children.stop_all([member.process for member in self.members], grace=STOP_GRACE)

    def _wait(self, member: Member, ready: Callable[[], bool], what: str) -> None:
        def ready_or_dead() -> bool:
            if not member.running:
                raise AssertionError(f"{member.name} ended with {member.process.returncode}\n{member.tail()}")
            return ready()

        wait_until(ready_or_dead, what=what, dump=member.tail, every=0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            # pytest shows it beside the failed assertion.
            print(self.logs())
