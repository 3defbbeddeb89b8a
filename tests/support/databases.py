"""A database of its own for a test module: a copy of one that was migrated once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from django.conf import settings
from django.db import connection, connections

from tasks.demo.services import Services
from tests.support.fleet import ROOT

_numbers = count(1)


def name(purpose: str) -> str:
    """Return a name that neither another test session nor another module uses."""
    return f"celeriac_{purpose}_{os.getpid()}_{next(_numbers)}"


def migrate(url: str) -> None:
    """Bring the database at the URL to the latest migration, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate", "--no-input", "-v", "0"],
        check=False,
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"migrate failed:\n{done.stdout}{done.stderr}"


@contextmanager
def used_by_django(database: str) -> Iterator[None]:
    """Point this process's default connection at another database of the same server."""
    connection = connections["default"]
    before = connection.settings_dict["NAME"]
    connection.close()
    # Both, as Django's own test runner does: threads make their connections from the second.
    connection.settings_dict["NAME"] = settings.DATABASES["default"]["NAME"] = database
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = settings.DATABASES["default"]["NAME"] = before


@contextmanager
def fresh(services: Services, template: str) -> Iterator[str]:
    """Give a copy of the template, used by Django meanwhile and dropped afterwards; yields its URL."""
    database = name("module")
    url = services.create_database(database, template=template)
    try:
        with used_by_django(database):
            yield url
    finally:
        services.drop_database(database)


def cut_sessions() -> int:
    """End every session of the database but this process's own; returns how many that were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])
