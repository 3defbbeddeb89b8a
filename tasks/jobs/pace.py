"""How fast the shop's jobs come back after a failure."""

from __future__ import annotations

from typing import Final

from celeriac import Backoff

#: A real gateway deserves a minute (Celeriac's default). These jobs come back within seconds, so that a demo
#: of a few hundred orders shows retries, recoveries and dead letters and still ends within a minute.
QUICK: Final = Backoff(initial=0.5, factor=2, cap=4, jitter=0.5)
