"""What runs while something is killed: a job that notes each of its starts and works until it is let go."""

import os
import struct
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NAME = "bench.hold"
VARIABLE = "BENCH_STARTS"
_RECORD = struct.Struct("qdq")
_LOOK_EVERY = 0.02


def hold(job: int, gate: str, seconds: float) -> None:
    """Note the start of job number `job`, then work for so many seconds, or until the file `gate` is there."""
    os.write(_file(), _RECORD.pack(job, time.time(), os.getpid()))
    until = time.monotonic() + seconds
    while time.monotonic() < until and not os.path.exists(gate):
        time.sleep(min(_LOOK_EVERY, seconds))


@cache
def _file() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job: seconds since the epoch, and the process."""

    at: float
    pid: int


class Starts:
    """Every start of every job, in a file that neither side knows of."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def env(self) -> dict[str, str]:
        """What tells the workers where to note."""
        return {VARIABLE: str(self._path)}

    def of(self, jobs: range) -> dict[int, list[Start]]:
        """The starts of each of these jobs, in order."""
        found: dict[int, list[Start]] = defaultdict(list)
        noted = self._path.read_bytes() if self._path.exists() else b""
        for job, at, pid in _RECORD.iter_unpack(noted):
            if job in jobs:
                found[job].append(Start(at, pid))
        return found
