"""The partner whose records the shop copies."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from tasks.thirdparty.errors import Catalogue, Failed, Limited, Refused, TimedOut, Unreachable
from tasks.thirdparty.http import call


class PartnerUnreachable(Unreachable):
    code = "PARTNER_UNREACHABLE_503"


class PartnerTimeout(TimedOut):
    code = "PARTNER_TIMEOUT_504"


class PartnerFailed(Failed):
    code = "PARTNER_FAILED_500"


class PartnerLimited(Limited):
    code = "PARTNER_LIMIT_429"


class PartnerRefused(Refused):
    code = "PARTNER_REFUSED_422"


ERRORS: Final = Catalogue(PartnerUnreachable, PartnerTimeout, PartnerFailed, PartnerLimited, PartnerRefused)


def record(external_id: str, *, token: str, request_id: str) -> dict[str, Any]:
    """The record *external_id* as an object with ``id``, ``version`` and ``body``."""
    path = f"/partner/records/{quote(external_id, safe='')}"
    return call(ERRORS, "GET", path, request_id=request_id, headers={"Authorization": f"Bearer {token}"})
