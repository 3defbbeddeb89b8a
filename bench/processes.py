"""Workers and schedulers for one measurement: started by us, waited for within bounds, gone afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.errors import BenchError
from tasks.demo import children

ROOT = Path(__file__).resolve().parents[1]
STOP_GRACE = 45.0  # seconds: longer than a worker's own grace period
STUCK_AFTER = 60.0  # seconds without any progress
_LOOK_EVERY = 0.05
_TAIL = 40  # lines


class Processes:
    """The processes of one measurement; a context manager that ends all it has started."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = {**os.environ, **env, "PYTHONUNBUFFERED": "1"}
        self._started: list[tuple[str, Path, subprocess.Popen[bytes]]] = []

    def celery(self, app: str, *args: str) -> None:
        """Start `celery -A app …`."""
        name = f"{app.rpartition('.')[2]}-{args[0]}"
        log = self._folder / f"{name}.log"
        command: Sequence[str] = [sys.executable, "-m", "celery", "-A", app, *args]
        process = children.start(command, log=log, env=self._env, cwd=ROOT, death_signal=signal.SIGKILL)
        self._started.append((name, log, process))

    def wait_until(self, what: str, reached: Callable[[], int], wanted: int) -> None:
        """Return once the count `reached` is as high as `wanted`.

        Raises BenchError when one of the processes ends before that, or when the count stands still for a minute.
        """
        seen, since = reached(), time.monotonic()
        while seen < wanted:
            self._all_run()
            time.sleep(_LOOK_EVERY)
            count = reached()
            if count > seen:
                seen, since = count, time.monotonic()
            elif time.monotonic() - since > STUCK_AFTER:
                raise BenchError(f"{seen} of {wanted} {what}, and none for {STUCK_AFTER:g} s.\n{self._tails()}")

    def _all_run(self) -> None:
        for name, _, process in self._started:
            if process.poll() is not None:
                raise BenchError(f"{name} has ended with status {process.returncode}.\n{self._tails()}")

    def _tails(self) -> str:
        parts = []
        for name, log, process in self._started:
            lines = log.read_text(errors="replace").splitlines()[-_TAIL:] if log.exists() else []
            parts.append("\n".join([f"--- {name} (pid {process.pid})", *lines]))
        return "\n".join(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        children.stop_all([process for _, _, process in self._started], grace=STOP_GRACE)
