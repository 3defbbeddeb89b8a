"""Error codes of the platform itself. Codes are ``DOMAIN_REASON_STATUS``, upper case, at most 64 characters."""

from __future__ import annotations

import re
from typing import Final

MAX_LENGTH: Final = 64
PATTERN: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+_[1-5]\d\d")

UNCLASSIFIED: Final = "CELERIAC_UNCLASSIFIED_500"
WORKER_LOST: Final = "CELERIAC_WORKER_LOST_500"
TIME_LIMIT: Final = "CELERIAC_TIME_LIMIT_504"
SOFT_TIME_LIMIT: Final = "CELERIAC_SOFT_TIME_LIMIT_504"
RESULT_UNSERIALISABLE: Final = "CELERIAC_RESULT_UNSERIALISABLE_500"
RESULT_TOO_LARGE: Final = "CELERIAC_RESULT_TOO_LARGE_413"
PAYLOAD_UNREADABLE: Final = "CELERIAC_PAYLOAD_UNREADABLE_400"
OUT_OF_MEMORY: Final = "CELERIAC_OUT_OF_MEMORY_507"
EXPIRED: Final = "CELERIAC_EXPIRED_410"
REJECTED: Final = "CELERIAC_REJECTED_406"
UPSTREAM_FAILED: Final = "CELERIAC_UPSTREAM_FAILED_424"


def is_well_formed(code: str) -> bool:
    """Whether *code* reads ``DOMAIN_REASON_STATUS`` and fits in 64 characters."""
    return len(code) <= MAX_LENGTH and PATTERN.fullmatch(code) is not None
