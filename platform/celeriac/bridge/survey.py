"""What a Celery project is like, as Celeriac sees it: what changes with the import, and what its people have to decide. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from celery import Task, current_app
from django.conf import settings

from celeriac import conf
from celeriac.bridge.plain import stays_plain

CHANGES: Final = "changes"
DECIDE: Final = "decide"
FINE: Final = "fine"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing: how it stands ("fine", "changes", "decide"), what it is, what follows."""

    kind: str
    what: str
    then: str
    names: tuple[str, ...] = ()


def look_at(app: Any = None) -> list[Remark]:
    """All remarks on *app* (absent: the current one), what must be decided first."""
    app = app or current_app._get_current_object()
    app.loader.import_default_modules()
    app.finalize()
    own = {name: task for name, task in sorted(app.tasks.items()) if not name.startswith(("celery.", "celeriac."))}
    remarks = [*_setup(app), *_tasks(own), *_conf(app)]
    return sorted(remarks, key=lambda remark: (DECIDE, CHANGES, FINE).index(remark.kind))


def _setup(app: Any) -> Iterator[Remark]:
    from celeriac.bridge.app import Celery

    if isinstance(app, Celery):
        yield Remark(FINE, f"the app {app.main!r} is a celeriac.Celery", "its tasks are jobs of the ledger")
    else:
        yield Remark(
            DECIDE,
            f"the app {app.main!r} is a plain celery.Celery",
            "change `from celery import Celery` to `from celeriac import Celery` where it is made",
        )
    for installed in ("celeriac", "django_celery_results"):
        if installed not in settings.INSTALLED_APPS:
            yield Remark(DECIDE, f"{installed!r} isn't in INSTALLED_APPS", "add it, then `manage.py migrate`")
    vendor = settings.DATABASES[conf.alias()]["ENGINE"].rpartition(".")[2]
    if "postgresql" not in vendor and "postgis" not in vendor:
        yield Remark(DECIDE, f"the ledger's database is {vendor}", "PostgreSQL 14 or newer is needed")
    scheme = str(app.conf.broker_url or "amqp://").partition(":")[0]
    if scheme in ("redis", "rediss"):
        yield Remark(FINE, "the broker is Redis", "it carries ids only, and may be wiped")
    else:
        yield Remark(
            DECIDE,
            f"the broker is {scheme}",
            "Redis is what is tested; others work as far as kombu is the same for them",
        )


def _tasks(tasks: dict[str, Any]) -> Iterator[Remark]:
    yield Remark(FINE, f"{len(tasks)} task(s) are registered", "each keeps Celery's meaning until it is given a Policy")
    plain = tuple(name for name, task in tasks.items() if stays_plain(task.app, name))
    tasks = {name: task for name, task in tasks.items() if name not in plain}
    based = tuple(name for name, task in tasks.items() if _base(task) is not None)
    limited = tuple(name for name, task in tasks.items() if task.rate_limit is not None)
    other = tuple(name for name, task in tasks.items() if task.serializer not in (None, "json"))
    once = tuple(n for n, t in tasks.items() if getattr(t, "policy", None) is None and not t.acks_late)
    if plain:
        yield Remark(
            FINE,
            f"{len(plain)} task(s) stay plain Celery",
            'by ledger=False or CELERIAC["PLAIN_TASKS"]: no ledger',
            plain,
        )
    if once and conf.get("ON_LOST") == "again":
        yield Remark(
            DECIDE,
            f"{len(once)} task(s) were at most once: without acks_late, a task whose worker died was lost",
            'now they run again. For those that bear no repetition: Policy(on_lost="review"), or CELERIAC["ON_LOST"] for all',
            once,
        )
    if based:
        yield Remark(FINE, f"{len(based)} task(s) have a base class of their own", "ours is mixed in before it", based)
    if limited:
        yield Remark(
            CHANGES,
            f"{len(limited)} task(s) have a rate_limit",
            "it holds for the whole fleet now, not for each worker: raise it by the number of workers if that was meant",
            limited,
        )
    if other:
        yield Remark(DECIDE, f"{len(other)} task(s) have another serializer", "arguments are JSON only", other)


def _conf(app: Any) -> Iterator[Remark]:
    said = app.conf
    if said.task_serializer not in (None, "json"):
        yield Remark(
            DECIDE,
            f"task_serializer is {said.task_serializer!r}",
            "arguments are JSON only, since unpickling runs code",
        )
    backend = str(said.result_backend or "")
    if backend and not backend.startswith(("django-db", "celeriac")):
        yield Remark(
            CHANGES,
            f"result_backend is {backend.partition(':')[0]}",
            "results of jobs live in the ledger; those of adopted messages are written there, too. AsyncResult finds both",
        )
    if said.task_always_eager:
        yield Remark(CHANGES, "task_always_eager is on", "eager tasks are Celery's own and write no job")
    if said.worker_prefetch_multiplier not in (1, 4):
        yield Remark(
            CHANGES,
            f"worker_prefetch_multiplier is {said.worker_prefetch_multiplier}",
            "a worker takes a message only for a free slot",
        )
    timeout = (said.broker_transport_options or {}).get("visibility_timeout")
    if timeout:
        yield Remark(
            CHANGES,
            f"visibility_timeout is {timeout} s",
            "it has no meaning for jobs: the ledger knows what was lost within seconds",
        )
    if said.beat_schedule:
        yield Remark(
            FINE, f"beat has {len(said.beat_schedule)} entries", "run `celery beat` as before; what it sends is a job"
        )


def _base(task: Any) -> type | None:
    """A class of the project's between the task and Celery's."""
    from celeriac.bridge.task import LedgerTask

    for cls in type(task).__mro__[1:]:
        if cls not in (Task, LedgerTask, object) and cls.__module__.partition(".")[0] not in ("celery", "celeriac"):
            return cls
    return None
