"""How a call to a third party can fail: five kinds.

Each client has a subclass of each kind, which carries the error code.

The class says what a caller may assume: after :class:`Unreachable`, :class:`Limited` and :class:`Refused`
nothing was done; after :class:`TimedOut` and :class:`Failed` nobody knows, and only an idempotency key makes
a repetition safe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from celeriac import JobError


class ThirdPartyError(JobError):
    """A third party did not do what it was asked."""


class Unreachable(ThirdPartyError):
    """No connection: nothing was sent."""


class TimedOut(ThirdPartyError):
    """No answer in time, or the connection broke while waiting for it."""


class Failed(ThirdPartyError):
    """The third party answered with a fault of its own (5xx), or with something that isn't an answer."""


class Limited(ThirdPartyError):
    """Too many calls; ``retry_after`` is how long the third party asks us to wait, in seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message, retry_after)
        self.retry_after = retry_after

    def __str__(self) -> str:
        return str(self.args[0])


class Refused(ThirdPartyError):
    """The third party understood and said no (4xx): the same request will be refused again."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The errors of one third party."""

    unreachable: type[Unreachable]
    timed_out: type[TimedOut]
    failed: type[Failed]
    limited: type[Limited]
    refused: type[Refused]

    def for_status(self, status: int, detail: str, retry_after: str | None = None) -> ThirdPartyError:
        """The error for an HTTP *status* of 300 or more.

        *retry_after* is the header as received, None when absent.
        """
        if status == 429:
            return self.limited(detail, _seconds(retry_after))
        if status in (408, 504):
            return self.timed_out(detail)
        if 400 <= status < 500:
            return self.refused(detail)
        return self.failed(detail)


def _seconds(header: str | None) -> float:
    """Seconds of a ``Retry-After`` header.

    Its other form, a date, is answered with the default: clocks differ.
    """
    try:
        seconds = float(header) if header else 1.0
    except ValueError:
        return 1.0
    return max(0.0, seconds) if math.isfinite(seconds) else 1.0
