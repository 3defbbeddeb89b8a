"""The demo's servers as real processes, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Running:
    """A server of the demo that has said it is ready."""

    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        """Its port on loopback."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def behave(self, service: str, **request: Any) -> httpx.Response:
        """Tell a third party how to behave."""
        return httpx.post(f"{self.url}/control/{service}", json=request)

    def calls(self, service: str) -> dict[str, Any]:
        """The call book of a third party."""
        report: dict[str, Any] = httpx.get(f"{self.url}/calls/{service}").raise_for_status().json()
        return report


@contextmanager
def running(module: str, *arguments: str) -> Iterator[Running]:
    """Run ``python -m MODULE ARGUMENTS`` until the block ends."""
    path = os.pathsep.join([str(ROOT / "platform"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready, _, url = process.stdout.readline().strip().partition(" ")
        assert ready == "ready", f"{module} ended with {process.wait()} before it was ready"
        yield Running(url, process)
    finally:
        process.terminate()
        process.wait(timeout=10)
