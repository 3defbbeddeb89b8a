"""Celery's events and log lines pass the redactor: they leave the database's protection."""

from __future__ import annotations

import logging
from typing import Any, Final

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher

from celeriac.settle.settle import redactor

#: Event fields that carry what tasks were given, returned or raised.
_OPEN: Final = ("args", "kwargs", "result", "exception", "traceback", "message")


class RedactedDispatcher(EventDispatcher):  # type: ignore[misc]
    """Sends events with secrets masked."""

    app = None

    def _prepare_event(self, type: str, fields: dict[str, Any], **options: Any) -> Any:
        shown = {k: redactor().text(v) if k in _OPEN and isinstance(v, str) else v for k, v in fields.items()}
        return super()._prepare_event(type, shown, **options)

    def send(self, type: str, *args: Any, **fields: Any) -> Any:
        shown = {k: redactor().text(v) if k in _OPEN and isinstance(v, str) else v for k, v in fields.items()}
        return super().send(type, *args, **shown)


class RedactedEvents(Events):  # type: ignore[misc]
    """``app.events`` with our dispatcher."""

    dispatcher_cls = "celeriac.bridge.redacted_events:RedactedDispatcher"


class RedactingFilter(logging.Filter):
    """Masks secrets in the text and the traceback of a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        mask = redactor()
        message = record.getMessage()
        masked = mask.text(message)
        if masked != message:
            record.msg, record.args = masked, None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = mask.text(record.exc_text)
        return True
