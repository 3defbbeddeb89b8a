"""Runs the ledger's hot statements on the Django connection of the calling thread.

They go to psycopg directly, bound and prepared on the server: Django's cursor would interpolate the arguments on the client
and have PostgreSQL parse and plan the same text on every call. Whoever listens to Django's cursor
(``execute_wrapper``, ``assertNumQueries``, debug logs) still sees them: then the ordinary cursor is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from celeriac import conf
from celeriac.ledger.dialects.postgres_fleet import DO_NOT_WAIT, IMPATIENT, KEEP_ALIVE, NEEDN_T_LAST

#: Never reached: only statements that ask for it are prepared, a project's own queries stay as they are.
_ONLY_ON_REQUEST: Final = 1 << 30
#: The project's own ``OPTIONS`` of each database whose options were added to.
_ASKED_FOR: Final[dict[str, Mapping[str, Any]]] = {}


def connection() -> BaseDatabaseWrapper:
    """The calling thread's connection to the ledger's database."""
    return connections[conf.alias()]


def fetch(
    sql: str, params: Mapping[str, Any] | Sequence[Any], on: BaseDatabaseWrapper | None = None
) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows. *on*: the session; absent: the calling thread's connection to the ledger.

    Raises:
        django.db.DatabaseError: as Django's cursor would. In a broken transaction: ``TransactionManagementError``.
    """
    django = connection() if on is None else on
    if django.execute_wrappers or django.force_debug_cursor:
        with django.cursor() as ordinary:
            ordinary.execute(sql, params)
            return list(ordinary.fetchall())
    if django.connection is None:
        django.ensure_connection()
    django.validate_no_broken_transaction()
    with django.wrap_database_errors:
        direct = django.connection
        prepare = direct.prepare_threshold is not None
        if not prepare and conf.get("PREPARE_STATEMENTS"):
            direct.prepare_threshold = _ONLY_ON_REQUEST
            prepare = True
        with psycopg.Cursor(direct) as cursor:
            cursor.execute(sql, params, prepare=prepare)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows


@contextmanager
def atomic() -> Iterator[None]:
    """A transaction, or a savepoint inside the caller's, on the ledger's database."""
    with transaction.atomic(using=conf.alias()):
        yield


def notice_silence(options: Mapping[str, int]) -> None:
    """Have the connections that this process and its children make to the ledger from now on notice that the server is out of reach.

    *options*: libpq's, in its units; what the project's own ``OPTIONS`` say wins. A statement may take as long as it likes: it is the other
    side's kernel that has to answer.
    """
    settings = connections.settings[conf.alias()]
    if connection().vendor == "postgresql":
        asked_for = _ASKED_FOR.setdefault(conf.alias(), settings.get("OPTIONS", {}))
        settings["OPTIONS"] = {**options, **asked_for}


def own_session(alias: str) -> BaseDatabaseWrapper:
    """A connection to *alias* of one's own, outside Django's per-thread registry: nothing that a task does can close it.

    It notices within seconds that the server is out of reach; the system's own patience is a quarter of an hour.
    """
    session: BaseDatabaseWrapper = connections[alias].copy()
    options = {**IMPATIENT, **_ASKED_FOR.get(alias, session.settings_dict.get("OPTIONS", {}))}
    options.pop("pool", None)  # what holds a lock for as long as it lives is nobody else's next connection
    session.settings_dict["OPTIONS"] = options
    session.inc_thread_sharing()
    return session


def keep_alive(session: BaseDatabaseWrapper) -> None:
    """Have the server notice within about 4 s that our host is gone."""
    with session.cursor() as cursor:
        for statement in KEEP_ALIVE:
            cursor.execute(statement)


def needn_t_last(session: BaseDatabaseWrapper) -> None:
    """Commits on *session* don't wait for the disk: for what is worth nothing after a crash of the database."""
    with session.cursor() as cursor:
        cursor.execute(NEEDN_T_LAST)


def do_not_wait(session: BaseDatabaseWrapper) -> None:
    """Bound every wait for a lock on *session*."""
    with session.cursor() as cursor:
        cursor.execute(DO_NOT_WAIT)
