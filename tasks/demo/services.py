"""A real PostgreSQL and a real Redis: those that DATABASE_URL and REDIS_URL name, else servers of our own.

Servers of our own live in one temporary folder, listen on ports that were free, and end with the process that started
them: when it says so, at its exit, or by the kernel when it is killed. Their addresses are known as soon as `Services`
is made, before anything is started, so that settings may be read first.
"""

import atexit
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tasks.demo.postgres import Postgres
from tasks.demo.redis_server import RedisServer
from tasks.demo.scratch import Scratch


class NotOurs(Exception):
    """The environment names this server, so it isn't ours to start, stop or pause."""

    def __str__(self) -> str:
        return "The environment names this server (DATABASE_URL, REDIS_URL): it isn't ours to start, stop or pause."


class Services:
    """The database and the broker that a demo, a test run or a bench works with; a context manager.

    `fsync=False` lets PostgreSQL of our own promise less than it does in production; only tests that measure nothing
    want that. `environ` is where DATABASE_URL and REDIS_URL are looked up (default: the process's environment).
    """

    def __init__(self, *, fsync: bool = True, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._given_database = environ.get("DATABASE_URL") or None
        self._given_redis = environ.get("REDIS_URL") or None
        self._scratch: Scratch | None = None
        self._postgres: Postgres | None = None
        self._redis: RedisServer | None = None
        if not (self._given_database and self._given_redis):
            self._scratch = Scratch()
            if not self._given_database:
                self._postgres = Postgres(self._scratch.path, fsync=fsync)
            if not self._given_redis:
                self._redis = RedisServer(self._scratch.path)
        self._owner = os.getpid()

    @property
    def database_url(self) -> str:
        """The database's URL; a server of our own is named by its Unix socket."""
        return self._given_database or self.postgres.url()

    @property
    def tcp_database_url(self) -> str:
        """The database's URL over the network, for what has to pass a proxy or wants keep-alives."""
        return self._given_database or self.postgres.tcp_url()

    @property
    def redis_url(self) -> str:
        """Redis' URL."""
        return self._given_redis or self.redis.url

    @property
    def postgres(self) -> Postgres:
        """The PostgreSQL of our own. Raises NotOurs when the environment named another."""
        if self._postgres is None:
            raise NotOurs
        return self._postgres

    @property
    def redis(self) -> RedisServer:
        """The Redis of our own. Raises NotOurs when the environment named another."""
        if self._redis is None:
            raise NotOurs
        return self._redis

    @property
    def own_postgres(self) -> bool:
        """Whether PostgreSQL is ours to stop."""
        return self._postgres is not None

    @property
    def own_redis(self) -> bool:
        """Whether Redis is ours to stop."""
        return self._redis is not None

    def env(self) -> dict[str, str]:
        """Return the environment variables by which the settings find these services."""
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "CELERY_BROKER_URL": self.redis_url,
        }

    def start(self) -> Self:
        """Start what is ours, both at once, and return when both answer.

        Raises NoPostgres or NoRedis when there is nothing to start, RuntimeError when a server fails to.
        """
        atexit.register(self._at_exit)
        with ThreadPoolExecutor(2) as pool:
            starts = [pool.submit(server.start) for server in (self._postgres, self._redis) if server is not None]
        try:
            for each in starts:
                each.result()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop what is ours and remove its data; a second call does nothing."""
        if self._postgres is not None:
            self._postgres.stop(immediate=True)  # nothing of it is kept
        if self._redis is not None:
            self._redis.stop()
        if self._scratch is not None:
            self._scratch.remove()
        atexit.unregister(self._at_exit)

    def start_postgres(self) -> None:
        """Start PostgreSQL again, with its data, at the same address."""
        self.postgres.start()

    def stop_postgres(self, *, immediate: bool = False) -> None:
        """Stop PostgreSQL and keep its data; with `immediate`, as a power cut would."""
        self.postgres.stop(immediate=immediate)

    def restart_postgres(self, *, immediate: bool = False) -> None:
        """Stop PostgreSQL and start it again."""
        self.stop_postgres(immediate=immediate)
        self.start_postgres()

    def pause_postgres(self) -> None:
        """Freeze PostgreSQL with all its sessions."""
        self.postgres.pause()

    def resume_postgres(self) -> None:
        """Let PostgreSQL go on."""
        self.postgres.resume()

    def start_redis(self) -> None:
        """Start Redis again, empty, at the same address."""
        self.redis.start()

    def stop_redis(self, *, immediate: bool = False) -> None:
        """Stop Redis, which forgets everything."""
        self.redis.stop(immediate=immediate)

    def pause_redis(self) -> None:
        """Freeze Redis: it accepts and never answers."""
        self.redis.pause()

    def resume_redis(self) -> None:
        """Let Redis go on."""
        self.redis.resume()

    def database_url_of(self, name: str) -> str:
        """Return the URL of another database on the same server."""
        return urlunsplit(urlsplit(self.database_url)._replace(path=f"/{quote(name)}"))

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Create an empty database, or a copy of `template` (which nobody may be using), and return its URL."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            # The copy goes through files, not the log: faster for a small template.
            statement += sql.SQL(" TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(template))
        self._maintain(statement)
        return self.database_url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, cutting off its sessions."""
        self._maintain(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _maintain(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.database_url_of("postgres"), autocommit=True) as session:
            session.execute(statement)

    def _at_exit(self) -> None:
        # A fork of the owner runs this too, and the servers are not its to stop.
        if os.getpid() == self._owner:
            self.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
