"""One process of the product under test: its log, its end, and what is done to it meanwhile."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tasks.demo import children

STOP_GRACE = 45.0  # seconds: longer than a worker's own grace period


class Member:
    """A process that we started, leader of a group of its own that its children belong to."""

    def __init__(self, name: str, args: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> None:
        self.name = name
        self.log = log
        self.args = list(args)
        self.process = children.start(
            args, log=log, env={**os.environ, **env, "PYTHONUNBUFFERED": "1"}, cwd=cwd, death_signal=signal.SIGKILL
        )

    @property
    def pid(self) -> int:
        """The process' own id, which is its group's id too."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it hasn't ended."""
        return self.process.poll() is None

    def text(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def children(self) -> list[psutil.Process]:
        """Its living children: a worker's pool."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def send(self, signum: int) -> None:
        """Send the main process a signal."""
        self.process.send_signal(signum)

    def kill(self) -> None:
        """SIGKILL the main process alone; its children are left to notice."""
        self.process.kill()
        self.process.wait()

    def kill_tree(self) -> None:
        """SIGKILL the main process and its children in one call, as a lost host takes them."""
        elsewhere = self._children_elsewhere()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for child in elsewhere:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self.process.wait()

    def freeze(self) -> None:
        """Stop the main process and its children (SIGSTOP): they keep their connections and do nothing."""
        os.killpg(self.pid, signal.SIGSTOP)
        for child in self._children_elsewhere():
            with suppress(psutil.NoSuchProcess):
                child.suspend()

    def thaw(self) -> None:
        """Let a frozen tree go on; what isn't frozen isn't disturbed."""
        if not self.running:
            return
        for child in self._children_elsewhere():
            with suppress(psutil.NoSuchProcess):
                child.resume()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGCONT)

    def _children_elsewhere(self) -> list[psutil.Process]:
        """Children that have a process group of their own."""
        found = []
        for child in self.children():
            with suppress(ProcessLookupError):
                if os.getpgid(child.pid) != self.pid:
                    found.append(child)
        return found

    def stop(self, grace: float = STOP_GRACE) -> int:
        """Ask it to end as an operator does, insist after `grace` seconds, return its exit status."""
        self.thaw()
        return children.stop(self.process, grace=grace, whole_group=True)

    def wait(self, timeout: float) -> int:
        """Return the exit status once it has ended by itself; fails after `timeout` seconds."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {timeout:g} s\n{self.tail()}") from None

    def tail(self, lines: int = 60) -> str:
        """The end of its log under its name, for failure messages."""
        return f"--- {self.name} (pid {self.pid})\n" + "\n".join(self.text().splitlines()[-lines:])
