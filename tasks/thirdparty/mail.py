"""Mail, through Django and a real SMTP server."""

from __future__ import annotations

import smtplib

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.smtp import EmailBackend

from tasks.thirdparty.errors import Failed, Refused, ThirdPartyError, TimedOut, Unreachable


class MailUnreachable(Unreachable):
    code = "MAIL_UNREACHABLE_503"


class MailTimeout(TimedOut):
    code = "MAIL_TIMEOUT_504"


class MailDeferred(Failed):
    code = "MAIL_DEFERRED_451"


class MailRefused(Refused):
    code = "MAIL_REFUSED_550"


def send(address: str, subject: str, text: str, *, message_id: str) -> str:
    """Send one mail and return its Message-ID.

    *message_id* stays the same when the mail is sent again: SMTP has no idempotency key, but a mailbox can
    drop the copy.

    Raises:
        ThirdPartyError: one of the classes above.
    """
    header = f"<{message_id}@shop.example>"
    connection = get_connection(timeout=settings.SHOP_CONNECT_TIMEOUT)
    message = EmailMessage(subject, text, None, [address], headers={"Message-ID": header}, connection=connection)
    try:
        connection.open()
        if isinstance(connection, EmailBackend) and connection.connection and connection.connection.sock:
            # Django has one timeout for both; a server that accepts at once may still take its time over the
            # message.
            connection.connection.sock.settimeout(settings.SHOP_READ_TIMEOUT)
        message.send()
    except OSError as error:  # smtplib's own exceptions are OSErrors too
        raise as_error(error) from error
    finally:
        connection.close()
    return header


def as_error(error: OSError) -> ThirdPartyError:
    """What *error*, raised while a mail was sent, means to a caller.

    4xx answers pass, 5xx don't (RFC 5321, 4.2.1).
    """
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, answer = next(iter(error.recipients.values()))
        return _for_reply(code, answer)
    if isinstance(error, smtplib.SMTPResponseException):
        return _for_reply(error.smtp_code, error.smtp_error)
    if isinstance(error, (TimeoutError, smtplib.SMTPServerDisconnected, ConnectionResetError, BrokenPipeError)):
        return MailTimeout(str(error))
    return MailUnreachable(str(error))


def _for_reply(code: int, answer: bytes | str) -> ThirdPartyError:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    return MailRefused(f"{code} {text}") if code >= 500 else MailDeferred(f"{code} {text}")
