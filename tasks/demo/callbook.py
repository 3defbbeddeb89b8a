"""The call book: what a third party was asked, how often, and what it did. The audit reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypedDict


class Tally(TypedDict):
    """One request's line."""

    calls: int
    acted: int


class CallBook:
    """The calls of one service. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[str, Tally] = {}
        self._answers: dict[str, dict[str, Any]] = {}

    def note(self, request_id: str) -> int:
        """Record one more call of *request_id*; returns how many there have been, this one included."""
        with self._lock:
            tally = self._tallies.setdefault(request_id, Tally(calls=0, acted=0))
            tally["calls"] += 1
            return tally["calls"]

    def act(self, request_id: str, key: str | None, action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Run *action* and return its answer.

        With a *key* that has been answered before, that answer is returned, marked as repeated.
        """
        with self._lock:
            if key is not None and key in self._answers:
                return {**self._answers[key], "repeated": True}
            answer = action()
            self._tallies[request_id]["acted"] += 1
            if key is not None:
                self._answers[key] = answer
            return {**answer, "repeated": False}

    def report(self) -> dict[str, Any]:
        """Totals, and one tally a request id."""
        with self._lock:
            requests = {request_id: dict(tally) for request_id, tally in self._tallies.items()}
        return {
            "calls": sum(tally["calls"] for tally in requests.values()),
            "acted": sum(tally["acted"] for tally in requests.values()),
            "requests": requests,
        }
