"""Whether the database's clock has been set: everybody's beats look old after a step forward, and nobody's are."""

from __future__ import annotations

import time
from collections.abc import Callable

#: A clock that is slewed, and statements that wait to be answered, explain less than this.
_UNEXPLAINED = 1.0


class ServerClock:
    """Compares how far the server's clock has come with our own monotonic one. *monotonic* is ours, in seconds.

    A step back is not looked for: beats of the future make nobody look dead. That our own clock stood still (a suspended host) looks like a
    step of the server's, and calls for the same: to judge nobody for a while.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: tuple[float, float] | None = None
        self._stepped_at = float("-inf")

    def saw(self, asked: float, told: float) -> None:
        """The server was *asked* at this moment of ours, and *told* that it was this time (seconds since any epoch)."""
        now = self._monotonic()
        # At most so much time has passed between the server's two readings.
        if self._last is not None and told - self._last[1] > now - self._last[0] + _UNEXPLAINED:
            self._stepped_at = now
        self._last = (asked, told)

    def stepped_within(self, seconds: float) -> bool:
        """Whether it was set forward in the last *seconds* of ours."""
        return self._monotonic() - self._stepped_at < seconds
