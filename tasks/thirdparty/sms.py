"""The SMS gateway."""

from __future__ import annotations

from typing import Final

from tasks.thirdparty.errors import Catalogue, Failed, Limited, Refused, TimedOut, Unreachable
from tasks.thirdparty.http import call


class SmsGatewayUnreachable(Unreachable):
    code = "SMS_GATEWAY_UNREACHABLE_503"


class SmsGatewayTimeout(TimedOut):
    code = "SMS_GATEWAY_TIMEOUT_504"


class SmsGatewayFailed(Failed):
    code = "SMS_GATEWAY_FAILED_500"


class SmsGatewayLimited(Limited):
    code = "SMS_GATEWAY_LIMIT_429"


class SmsNumberRefused(Refused):
    code = "SMS_NUMBER_REFUSED_422"


ERRORS: Final = Catalogue(
    SmsGatewayUnreachable, SmsGatewayTimeout, SmsGatewayFailed, SmsGatewayLimited, SmsNumberRefused
)


def send(phone: str, text: str, *, request_id: str) -> str:
    """Send *text* to *phone* and return the gateway's message id."""
    return str(call(ERRORS, "POST", "/sms/messages", request_id=request_id, body={"to": phone, "text": text})["id"])
