"""What processes had in memory, and whether the kernel's OOM killer was at work: evidence for when one of them is gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_CGROUPS: Final = Path("/sys/fs/cgroup")


def rss(pid: int) -> int | None:
    """Resident memory of process *pid* in bytes; ``None`` when it has gone, or where the system doesn't say (no ``/proc``)."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return None


def oom_kills() -> int | None:
    """How often the OOM killer has struck in our control group; ``None`` where there is no counter."""
    for path in _counters():
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.isdigit():
                return int(count)
    return None


def _counters() -> list[Path]:
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2; in a container the path may be the host's, and the root is ours
            found += [_CGROUPS / path.lstrip("/") / "memory.events", _CGROUPS / "memory.events"]
        elif "memory" in controllers.split(","):
            found += [
                _CGROUPS / "memory" / path.lstrip("/") / "memory.oom_control",
                _CGROUPS / "memory" / "memory.oom_control",
            ]
    return found


class Memory:
    """Samples a worker's processes. The last sample of a process outlives it, until its evidence was asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[int, int] = {}
        self._oom = oom_kills()
        self.total: int | None = None

    def sample(self, pids: Collection[int]) -> None:
        """Look at *pids*, which are all that live now."""
        seen = {pid: size for pid in pids if (size := rss(pid))}  # a process that has just died has none
        with self._lock:
            self._last |= seen
            self.total = sum(seen.values()) or None

    def evidence(self, pid: int | None) -> str:
        """What is known of process *pid*, which has died: "" where nothing is. Its sample is forgotten."""
        with self._lock:
            size = self._last.pop(pid or 0, None)
            before, self._oom = self._oom, oom_kills()
        said = [] if size is None else [f"it had {size / 2**20:.0f} MB"]
        if before is not None and self._oom is not None and self._oom > before:
            said.append(f"the kernel's OOM killer struck in its control group (oom_kill {before} -> {self._oom})")
        return "; ".join(said)
