"""The shop's queues and how many jobs of each run at once on one machine.

A queue a downstream: when one of them hangs, only its own slots wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CONCURRENCY: Final[Mapping[str, int]] = MappingProxyType(
    {
        "sms": 8,
        "email": 4,
        "data_sync": 32,
        "points": 4,
        "fulfil": 8,
    }
)
