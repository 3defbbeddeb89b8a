"""What the demo's third parties do when they are well: SMS gateway, carrier, partner."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tasks.demo import sandbox


@dataclass(frozen=True, slots=True)
class Call:
    """One call as a service sees it: path, JSON body, request id, and how often that has come."""

    path: str
    body: Mapping[str, Any]
    request_id: str
    calls: int


class Declined(Exception):
    """The service answers with an error on its own account: *status* and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status, self.text = status, text


def send_sms(call: Call) -> dict[str, Any]:
    """``POST /sms/messages``."""
    to = str(call.body.get("to", ""))
    if to == sandbox.PHONE_UNKNOWN:
        raise Declined(422, f"number {to} is not in service")
    if to == sandbox.PHONE_FLAKY:
        _decline_at_first(call)
    return {"id": f"sms-{_digest(call.request_id)}"}


def book_shipment(call: Call) -> dict[str, Any]:
    """``POST /logistics/shipments``."""
    if not call.body.get("order"):
        raise Declined(422, "order is missing")
    return {"tracking_number": f"TRK{_digest(str(call.body['order'])).upper()}"}


def read_record(call: Call) -> dict[str, Any]:
    """``GET /partner/records/<id>``."""
    record = call.path.rsplit("/", 1)[-1]
    if record.startswith(sandbox.RECORD_BROKEN):
        raise Declined(500, "record can't be read")
    if record.startswith(sandbox.RECORD_FLAKY):
        _decline_at_first(call)
    return {"id": record, "version": 1, "body": {"name": record, "checksum": _digest(record)}}


def _decline_at_first(call: Call) -> None:
    if call.calls <= sandbox.FLAKY_CALLS:
        raise Declined(503, "try again")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


#: (method, path up to the id) → service and what it does.
OFFERS: Final[Mapping[tuple[str, str], tuple[str, Callable[[Call], dict[str, Any]]]]] = {
    ("POST", "/sms/messages"): ("sms", send_sms),
    ("POST", "/logistics/shipments"): ("logistics", book_shipment),
    ("GET", "/partner/records"): ("partner", read_record),
}
SERVICES: Final = tuple(dict.fromkeys(service for service, _ in OFFERS.values()))
