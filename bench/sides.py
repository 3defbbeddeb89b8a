"""The sides that are measured: how each is started, fed, and asked what it has settled.

Their apps need Django set up, so they are imported when a side is made, on a ground that stands.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from bench.body import Marks
from bench.errors import BenchError
from bench.ground import Ground
from bench.processes import Processes

SLOTS = 4
# The arguments as JSON are 100 bytes: `[0.0,"xxx…"]`.
TEXT = "x" * 92

Settled = Callable[[], list[float]]
"""When each settled job was settled, seconds since the epoch."""


@dataclass(frozen=True)
class Side:
    """One way to run jobs. `settled` is absent where results are ignored: then a job's end is its body's."""

    name: str
    app: str
    queue: str
    task: Any
    env: Mapping[str, str] = field(default_factory=dict)
    needs_scheduler: bool = False
    settled: Settled | None = None
    together: Callable[[], Any] = nullcontext
    """What jobs are sent in when their sending isn't measured."""

    def send_many(self, count: int) -> None:
        """Send jobs as fast as may be."""
        with self.together():
            for _ in range(count):
                self.task.delay(0.0, TEXT)

    @contextmanager
    def running(self, ground: Ground) -> Iterator[tuple[Processes, Marks]]:
        """One worker with `SLOTS` processes (and the scheduler where there is one) while the block lasts."""
        folder = ground.folder()
        marks = Marks(folder / "marks")
        with Processes(folder, {**ground.env, **self.env, **marks.env}) as processes:
            if self.needs_scheduler:
                processes.celery(self.app, "scheduler", "-l", "WARNING")
            processes.celery(self.app, "worker", "-P", "prefork", "-c", str(SLOTS), "-Q", self.queue, "-l", "WARNING")
            yield processes, marks


def ours() -> Side:
    """Celeriac: one scheduler, one worker."""
    from bench.ours import QUEUE, noop

    settled = _times("SELECT ended_at FROM celeriac_job WHERE outcome = 'SUCCEEDED'")
    # The scheduler is a process of its own here, so that what it costs is seen apart.
    env = {"CELERIAC_EMBED_SCHEDULER": "false"}
    return Side(
        "ours", "bench.ours", QUEUE, noop, env=env, needs_scheduler=True, settled=settled, together=transaction.atomic
    )


def usual() -> Side:
    """Celery with `acks_late`, `track_started` and django-celery-results, at Django's default connection settings."""
    from bench.usual import QUEUE, noop

    return Side("celery-django-results", "bench.usual", QUEUE, noop, settled=_results())


def usual_reusing() -> Side:
    """The same with database connections kept: `CELERY_DB_REUSE_MAX`, which few projects know of."""
    from bench.usual import QUEUE, noop

    env = {"BENCH_DB_REUSE_MAX": "100000", "BENCH_CONN_MAX_AGE": "600"}
    return Side("celery-django-results-reuse", "bench.usual", QUEUE, noop, env=env, settled=_results())


def bare() -> Side:
    """Celery on Redis, results ignored."""
    from bench.bare import QUEUE, noop

    return Side("celery-redis", "bench.bare", QUEUE, noop)


def checked(side: Side, times: list[float], wanted: int) -> list[float]:
    """The times in order. Raises BenchError unless every job was settled exactly once."""
    if len(times) != wanted:
        raise BenchError(f"{side.name}: {len(times)} jobs were settled, {wanted} were sent.")
    return sorted(times)


def _results() -> Settled:
    return _times("SELECT date_done FROM django_celery_results_taskresult WHERE status = 'SUCCESS'")


def _times(statement: str) -> Settled:
    def settled() -> list[float]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            found: list[tuple[datetime]] = cursor.fetchall()
        return [at.timestamp() for (at,) in found]

    return settled
