"""The carrier."""

from __future__ import annotations

from typing import Final

from tasks.thirdparty.errors import Catalogue, Failed, Limited, Refused, TimedOut, Unreachable
from tasks.thirdparty.http import call


class LogisticsUnreachable(Unreachable):
    code = "LOGISTICS_UNREACHABLE_503"


class LogisticsTimeout(TimedOut):
    code = "LOGISTICS_TIMEOUT_504"


class LogisticsFailed(Failed):
    code = "LOGISTICS_FAILED_500"


class LogisticsLimited(Limited):
    code = "LOGISTICS_LIMIT_429"


class LogisticsRefused(Refused):
    code = "LOGISTICS_REFUSED_422"


ERRORS: Final = Catalogue(LogisticsUnreachable, LogisticsTimeout, LogisticsFailed, LogisticsLimited, LogisticsRefused)


def book(order_number: str, sku: str, quantity: int, *, request_id: str) -> str:
    """Book a parcel and return its tracking number."""
    parcel = {"order": order_number, "sku": sku, "quantity": quantity}
    return str(call(ERRORS, "POST", "/logistics/shipments", request_id=request_id, body=parcel)["tracking_number"])
