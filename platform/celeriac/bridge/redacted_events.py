"""Celery's events pass the redactor: they leave the database's protection."""

from __future__ import annotations

from typing import Any, Final

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher

from celeriac.settle.settle import redactor

#: Event fields that carry what tasks were given, returned or raised.
_OPEN: Final = ("args", "kwargs", "result", "exception", "traceback", "message")


class RedactedDispatcher(EventDispatcher):
    """Sends events with secrets masked."""

    app = None

    def _prepare_event(self, type: str, fields: dict[str, Any], **options: Any) -> Any:
        shown = {k: redactor().text(v) if k in _OPEN and isinstance(v, str) else v for k, v in fields.items()}
        return super()._prepare_event(type, shown, **options)

    def send(self, type: str, *args: Any, **fields: Any) -> Any:
        shown = {k: redactor().text(v) if k in _OPEN and isinstance(v, str) else v for k, v in fields.items()}
        return super().send(type, *args, **shown)


class RedactedEvents(Events):
    """``app.events`` with our dispatcher."""

    dispatcher_cls = "celeriac.bridge.redacted_events:RedactedDispatcher"
