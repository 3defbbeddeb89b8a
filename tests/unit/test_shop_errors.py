"""Every way a third party can fail has one code, and the code's kind decides what happens to the job."""

from __future__ import annotations

import pickle
import smtplib

import pytest

from celeriac import RetryLater, ToDeadLetter
from celeriac.codes import is_well_formed
from tasks.jobs.fulfil_order import OutOfStock
from tasks.jobs.points_accrual import CardUnknown
from tasks.jobs.steering import steering
from tasks.thirdparty import logistics, mail, partner, sms
from tasks.thirdparty.errors import Failed, Limited, Refused, ThirdPartyError, TimedOut, Unreachable

HTTP = (sms.ERRORS, logistics.ERRORS, partner.ERRORS)
MAIL = (mail.MailUnreachable, mail.MailTimeout, mail.MailDeferred, mail.MailRefused)
ALL = [
    kind
    for errors in HTTP
    for kind in (errors.unreachable, errors.timed_out, errors.failed, errors.limited, errors.refused)
]
ALL += [*MAIL, OutOfStock, CardUnknown]


def test_every_code_is_well_formed_and_belongs_to_one_error() -> None:
    codes = [kind.code for kind in ALL]

    assert all(map(is_well_formed, codes))
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", ALL)
def test_an_error_survives_the_way_between_two_processes(kind: type[ThirdPartyError]) -> None:
    error = pickle.loads(pickle.dumps(kind("text")))  # noqa: S301 -- what was pickled a moment ago

    assert (type(error), str(error), error.code) == (kind, "text", kind.code)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, Limited),
        (504, TimedOut),
        (408, TimedOut),
        (422, Refused),
        (401, Refused),
        (500, Failed),
        (503, Failed),
        (302, Failed),
    ],
)
def test_a_status_becomes_the_error_that_says_whether_to_try_again(status: int, kind: type[ThirdPartyError]) -> None:
    assert isinstance(sms.ERRORS.for_status(status, "detail"), kind)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        (None, 1.0),
        ("-3", 0.0),
        ("nan", 1.0),
        ("inf", 1.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 1.0),
    ],
)
def test_a_limit_says_how_long_to_wait_whatever_the_header_holds(header: str | None, seconds: float) -> None:
    limited = sms.ERRORS.for_status(429, "detail", header)

    assert isinstance(limited, Limited)
    assert limited.retry_after == seconds


def test_a_limit_comes_back_after_what_was_asked_for() -> None:
    with pytest.raises(RetryLater) as steered, steering():
        raise sms.SmsGatewayLimited("too many", retry_after=4)

    assert (steered.value.after, steered.value.code) == (4, "SMS_GATEWAY_LIMIT_429")


def test_a_refusal_goes_to_a_person_at_once() -> None:
    with pytest.raises(ToDeadLetter) as steered, steering():
        raise sms.SmsNumberRefused("not in service")

    assert steered.value.code == "SMS_NUMBER_REFUSED_422"


@pytest.mark.parametrize("kind", [sms.SmsGatewayFailed, sms.SmsGatewayTimeout, sms.SmsGatewayUnreachable])
def test_every_other_failure_is_left_to_the_policy(kind: type[ThirdPartyError]) -> None:
    with pytest.raises(kind), steering():
        raise kind("try again")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (smtplib.SMTPRecipientsRefused({"a@b.example": (550, b"no such mailbox")}), Refused),
        (smtplib.SMTPRecipientsRefused({"a@b.example": (451, b"later")}), Failed),
        (smtplib.SMTPDataError(451, b"greylisted"), Failed),
        (smtplib.SMTPDataError(554, b"spam"), Refused),
        (smtplib.SMTPConnectError(421, b"busy"), Failed),
        (smtplib.SMTPServerDisconnected("gone"), TimedOut),
        (TimeoutError("timed out"), TimedOut),
        (ConnectionRefusedError("refused"), Unreachable),
    ],
)
def test_a_mail_servers_answer_passes_or_does_not_as_its_first_digit_says(
    error: OSError, kind: type[ThirdPartyError]
) -> None:
    assert isinstance(mail.as_error(error), kind)
