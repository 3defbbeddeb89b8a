"""Fleets that things are done to: one of ours, and plain Celery's. Each sends jobs that hold on, and sees them start again."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Self

import psutil

from bench.errors import BenchError
from bench.ground import Ground
from bench.holding import Starts
from tests.support.fleet import Fleet
from tests.support.processes import Member

SLOTS = 8
SECONDS = 30.0  # how long a job works that nobody lets go
SETTLED_IN = 6.5  # seconds: a scheduler judges nobody before its evidence is 5 s old
_STARTED = 60.0  # seconds a process may take to come up
_LOOK_EVERY = 0.005

Jobs = range


class Held:
    """What both kinds have: processes, jobs by number, and the notes of their starts. A context manager that ends all."""

    app: str
    queue: str

    def __init__(self, ground: Ground, env: Mapping[str, str] | None = None) -> None:
        self._folder = ground.folder()
        self.starts = Starts(self._folder / "starts")
        self.fleet = Fleet({**ground.env, **self.starts.env, **(env or {})}, self._folder / "logs", app=self.app)
        self._numbers, self._gates = count(), count()
        self._gate = self._new_gate()

    @property
    def task(self) -> Any:
        """The task that holds on."""
        raise NotImplementedError

    def worker(self, slots: int = SLOTS, *, env: Mapping[str, str] | None = None, inside: Sequence[str] = ()) -> Member:
        """A worker that consumes."""
        raise NotImplementedError

    def send(self, jobs: int, seconds: float = SECONDS, *, gate: str | None = None) -> Jobs:
        """Send so many jobs; returns their numbers."""
        numbers = [next(self._numbers) for _ in range(jobs)]
        for number in numbers:
            self.task.apply_async((number, gate or self._gate, seconds), queue=self.queue)
        return range(numbers[0], numbers[-1] + 1)

    def let_go(self) -> None:
        """End what works; what is sent from now on works again."""
        with open(self._gate, "w"):
            self._gate = self._new_gate()

    def wait_for_starts(self, jobs: Jobs, times: int, patience: float = 90.0) -> bool:
        """Return when each of the jobs has started so often, or False after so many seconds."""
        return self.wait(lambda: all(len(s) >= times for s in self._starts_of(jobs)), patience)

    def nth_starts(self, jobs: Jobs, nth: int) -> list[float]:
        """When each of the jobs started for the n-th time, seconds since the epoch."""
        return [starts[nth - 1].at for starts in self._starts_of(jobs)]

    def started_again(self, jobs: Jobs) -> int:
        """How often jobs started beyond their first time."""
        return sum(max(0, len(starts) - 1) for starts in self._starts_of(jobs))

    def must(self, happened: bool, what: str) -> None:
        """Raise BenchError with the ends of the logs unless it happened."""
        if not happened:
            raise BenchError(f"{self.app}: {what}, and it did not happen.\n{self.fleet.logs()}")

    def wait(self, happened: Callable[[], Any], patience: float = 60.0) -> bool:
        """Return when it has happened, or False after so many seconds."""
        until = time.monotonic() + patience
        while not happened():
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def _starts_of(self, jobs: Jobs) -> list[list[Any]]:
        noted = self.starts.of(jobs)
        return [noted.get(job, []) for job in jobs]

    def _new_gate(self) -> str:
        return str(self._folder / f"gate-{next(self._gates)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.let_go()
        self.fleet.stop()


class Ours(Held):
    """Celeriac. `embedded`: its workers bring their schedulers, as by default; else they are started apart."""

    app = "bench.ours"

    def __init__(self, ground: Ground, *, embedded: bool, env: Mapping[str, str] | None = None) -> None:
        from bench.ours import QUEUE

        self.queue = QUEUE
        super().__init__(ground, {"CELERIAC_EMBED_SCHEDULER": "true" if embedded else "false", **(env or {})})

    @property
    def task(self) -> Any:
        """The task that holds on."""
        from bench.ours import hold

        return hold

    def worker(self, slots: int = SLOTS, *, env: Mapping[str, str] | None = None, inside: Sequence[str] = ()) -> Member:
        """A worker that consumes."""
        return self.fleet.worker(self.queue, slots, env=env, inside=inside)

    def settle_in(self, *members: Member, leads: Member | None = None) -> None:
        """Return when every scheduler there is may judge, and the one of `leads` leads."""
        from tests.support import leader

        self.must(self.wait(lambda: all(scheduler_of(m) for m in members)), "every tree was to have a scheduler")
        if leads is not None:
            for _ in range(4):
                aboard = scheduler_of(leads)
                if aboard is not None and leader.pid() == aboard.pid:
                    break
                term = leader.term()
                leader.cut()
                leader.wait_for(term + 1)
            else:
                raise BenchError("The lead couldn't be moved to where it was wanted.")
        leader.wait_until_it_judges()
        young = [p for m in members if (p := scheduler_of(m)) is not None]
        self.wait(lambda: all(time.time() - p.create_time() > SETTLED_IN + 1.5 for p in young))

    def unpaid(self, jobs: Jobs) -> None:
        """Raise BenchError unless these jobs all succeeded, charged with nothing."""
        from celeriac.models import Job

        done = self.wait(lambda: not Job.objects.unfinished().exists())
        self.must(done, f"jobs {jobs} were to end")
        bad = Job.objects.exclude(outcome="SUCCEEDED", lost_count=0, retry_count=0)
        self.must(not bad.exists(), f"nobody was to fail or be charged: {list(bad[:5])}")


class Plain(Held):
    """Plain Celery, acknowledging late."""

    app = "bench.late"

    def __init__(self, ground: Ground, queue: str, env: Mapping[str, str] | None = None) -> None:
        self.queue = queue
        super().__init__(ground, {"BENCH_QUEUE": queue, **(env or {})})

    @property
    def task(self) -> Any:
        """The task that holds on."""
        from bench.late import hold

        return hold

    def worker(self, slots: int = SLOTS, *, env: Mapping[str, str] | None = None, inside: Sequence[str] = ()) -> Member:
        """A worker that consumes."""
        name = f"{self.queue}{len(self.fleet.members)}"
        args = ["worker", "-Q", self.queue, "-c", str(slots), "-n", f"{name}@%h", "-l", "INFO"]
        member = self.fleet.celery(name, args, env=env, inside=inside)
        self.must(
            self.wait(lambda: f"{name}@" in member.text() and " ready." in member.text(), _STARTED),
            "a worker was to be ready",
        )
        return member


def scheduler_of(member: Member) -> psutil.Process | None:
    """The scheduler that a worker has embedded."""
    for child in member.children():
        try:
            if "scheduler" in child.cmdline():
                return child
        except psutil.NoSuchProcess:
            continue
    return None
