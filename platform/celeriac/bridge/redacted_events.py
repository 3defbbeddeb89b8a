"""Celery's events pass the redactor: they leave the database's protection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher

from celeriac.settle.settle import redactor

#: Event fields that carry what tasks were given, returned or raised.
_OPEN: Final = ("args", "kwargs", "result", "exception", "traceback", "message")


def _masked(fields: Mapping[str, Any]) -> dict[str, Any]:
    mask = redactor()
    return {k: mask.text(v) if k in _OPEN and isinstance(v, str) else v for k, v in fields.items()}


class RedactedDispatcher(EventDispatcher):
    """Sends events with secrets masked, by both of the ways that Celery sends them."""

    app = None

    def send(self, type: str, *args: Any, **fields: Any) -> Any:
        return super().send(type, *args, **_masked(fields))

    def publish(self, type: str, fields: Mapping[str, Any], *args: Any, **options: Any) -> Any:
        return super().publish(type, _masked(fields), *args, **options)


class RedactedEvents(Events):
    """``app.events`` with our dispatcher."""

    dispatcher_cls = "celeriac.bridge.redacted_events:RedactedDispatcher"
