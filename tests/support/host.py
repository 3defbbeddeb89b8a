"""A second host: a network namespace with one cable to this machine. Needs root, and a kernel that lets it.

What runs in it shares this machine's files and process ids, so that tests look at it as at any other process, but reaches
PostgreSQL and Redis only over the cable. Cutting the cable is what a lost host looks like from here: no FIN, no RST, nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import redis
from django.db import connections

from tasks.demo.ports import LOOPBACK
from tasks.demo.services import Services

_PREFIX = "celeriac-"
_NAMESPACES = Path("/var/run/netns")


class NoHost(Exception):
    """A second host can't be made here; the message says why."""


@dataclass(frozen=True, slots=True)
class Host:
    """The second host. `here` is this machine's address at the cable."""

    name: str
    cable: str
    here: str

    @property
    def inside(self) -> list[str]:
        """What a command begins with to run there. It is the same process, not a child of `ip`."""
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Cut the cable."""
        _ip("link", "set", self.cable, "down")

    def mend(self) -> None:
        """Join it again."""
        _ip("link", "set", self.cable, "up")


@contextmanager
def second_host() -> Iterator[Host]:
    """Give a host that is gone when the block ends. Raises NoHost where none can be made."""
    _remove_leftovers()
    pid = os.getpid()
    # A /30 of our own out of 10.231/16.
    net = f"10.231.{(pid >> 6) & 255}"
    first = (pid & 63) * 4
    host = Host(name=f"{_PREFIX}{pid}", cable=f"cel{pid}", here=f"{net}.{first + 1}")
    try:
        _make(host, there=f"{net}.{first + 2}")
    except (OSError, subprocess.CalledProcessError) as error:
        _remove(host)
        said = (getattr(error, "stderr", None) or str(error)).strip()
        raise NoHost(
            f"no network namespace, so no host was cut off: {said} (root on Linux with iproute2 can make one)"
        ) from None
    try:
        yield host
    finally:
        _remove(host)


@contextmanager
def listening_at(services: Services, address: str, database: str) -> Iterator[dict[str, str]]:
    """Have both servers listen at *address* too; yields the environment that finds *database* and the broker there.

    PostgreSQL is restarted for it: nobody may be connected.
    """
    rules, before = _let_in(services, f"'{LOOPBACK},{address}'", f"host all all {address}/30 scram-sha-256\n")
    broker = redis.Redis.from_url(services.redis_url)
    broker.config_set("bind", f"{LOOPBACK} {address}")
    try:
        at = urlsplit(services.tcp_database_url)
        netloc = at.netloc.replace(LOOPBACK, address)
        there = urlunsplit(at._replace(netloc=netloc, path=f"/{quote(database)}"))
        messages = services.redis_url.replace(LOOPBACK, address)
        yield {"DATABASE_URL": there, "REDIS_URL": messages, "CELERY_BROKER_URL": messages}
    finally:
        broker.config_set("bind", LOOPBACK)
        broker.close()
        rules.write_text(before)
        _let_in(services, f"'{LOOPBACK}'", "")


def _let_in(services: Services, addresses: str, rule: str) -> tuple[Path, str]:
    connections.close_all()
    with psycopg.connect(services.database_url_of("postgres"), autocommit=True) as session:
        session.execute(f"ALTER SYSTEM SET listen_addresses = {addresses}")
        found = session.execute("SHOW hba_file").fetchone()
    assert found is not None
    rules = Path(found[0])
    before = rules.read_text()
    rules.write_text(before + rule)
    services.restart_postgres()
    return rules, before


def _make(host: Host, there: str) -> None:
    if shutil.which("ip") is None:
        raise FileNotFoundError("there is no program `ip`")
    inside = f"{host.cable}i"
    _ip("netns", "add", host.name)
    _ip("link", "add", host.cable, "type", "veth", "peer", "name", inside)
    _ip("link", "set", inside, "netns", host.name)
    _ip("addr", "add", f"{host.here}/30", "dev", host.cable)
    _ip("link", "set", host.cable, "up")
    _ip("-n", host.name, "addr", "add", f"{there}/30", "dev", inside)
    _ip("-n", host.name, "link", "set", inside, "up")
    _ip("-n", host.name, "link", "set", "lo", "up")


def _remove(host: Host) -> None:
    for command in (("link", "del", host.cable), ("netns", "del", host.name)):
        if shutil.which("ip") is not None:
            subprocess.run(["ip", *command], check=False, capture_output=True)


def _remove_leftovers() -> None:
    """Who is killed removes nothing; the name says who it was."""
    for left in _NAMESPACES.glob(f"{_PREFIX}*") if _NAMESPACES.exists() else ():
        pid = left.name.removeprefix(_PREFIX)
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            _remove(Host(left.name, f"cel{pid}", ""))


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)
