"""Where a bench takes place: servers, database and folder of its own, empty before each measurement."""

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import django
import redis
from django.apps import apps
from django.core.management import call_command
from django.db import connection

from bench.errors import BenchError
from tasks.demo.services import Services

_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_EMPTIED = ("celeriac", "django_celery_results")  # apps, with all their tables


class Ground:
    """A context manager; one a process, since Django is set up for its database.

    DATABASE_URL and REDIS_URL are not heeded: a bench empties what it works on.
    """

    def __init__(self) -> None:
        self._services = Services(fsync=True, environ={})
        self._folder = tempfile.TemporaryDirectory(prefix="celeriac-bench-", ignore_cleanup_errors=True)
        self._measured = 0

    @property
    def env(self) -> dict[str, str]:
        """What the processes find the servers by. The database is reached as in a deployment: over TCP, with scram."""
        return {
            **self._services.env(),
            "DATABASE_URL": self._services.tcp_database_url,
            "DJANGO_SETTINGS_MODULE": "bench.settings",
            "CELERIAC_SPOOL_DIR": str(Path(self._folder.name) / "spool"),
        }

    @property
    def services(self) -> Services:
        """The servers, for those who stop and freeze them."""
        return self._services

    def folder(self) -> Path:
        """A new folder, for the logs and notes of one measurement."""
        self._measured += 1
        folder = Path(self._folder.name) / f"{self._measured:03d}"
        folder.mkdir()
        return folder

    def clear(self) -> None:
        """Forget every job and message, and leave nothing to write back: one side must not pay for the other."""
        tables = [model._meta.db_table for app in _EMPTIED for model in apps.get_app_config(app).get_models()]
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(tables)}")
            cursor.execute("CHECKPOINT")
        with self.redis() as broker:
            broker.flushall()

    def redis(self) -> "redis.Redis":
        """A client of the broker."""
        return redis.Redis.from_url(self._services.redis_url)

    def __enter__(self) -> Self:
        self._services.start()
        for name in [name for name in os.environ if name.startswith(("CELERIAC_", "BENCH_", "CELERY_", "PG"))]:
            del os.environ[name]  # overrides meant for other runs
        os.environ.update(self.env)
        django.setup()
        call_command("migrate", verbosity=0)
        self._check_durable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection.close()
        self._services.stop()
        self._folder.cleanup()

    def _check_durable(self) -> None:
        with connection.cursor() as cursor:
            for name, wanted in _DURABLE.items():
                cursor.execute(f"SHOW {name}")
                (found,) = cursor.fetchone()
                if found != wanted:
                    raise BenchError(f"PostgreSQL's {name} is {found}: what would be measured isn't durable.")
