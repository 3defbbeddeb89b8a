"""Log records as JSON lines for machines, or one readable line on a terminal; both pass the redactor.

``configure()`` is called by workers and the scheduler. A project that configures logging itself can use the classes in its ``LOGGING``:
``celeriac.observe.logs.JsonFormatter``, ``HumanFormatter`` and ``RedactingFilter``.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from celeriac import conf, redaction, text


def _mask() -> redaction.Redactor:
    return redaction.redactor(tuple(conf.get("REDACT_KEYS")), tuple(conf.get("REDACT_PATTERNS")))


class RedactingFilter(logging.Filter):
    """Masks secrets in the text and the traceback of a record, whoever wrote it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always lets the record through, masked."""
        mask = _mask()
        message = record.getMessage()
        masked = mask.text(message)
        if masked != message:
            record.msg, record.args = masked, None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = mask.text(record.exc_text)
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``at, level, logger, event, thread`` and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
            "thread": record.threadName,
            "process": record.process,
        }
        line.update(getattr(record, "celeriac", {}))
        if record.exc_info or record.exc_text:
            line["traceback"] = record.exc_text or self.formatException(record.exc_info or (None, None, None))
        return json.dumps(line, default=text.safe_str)


class HumanFormatter(logging.Formatter):
    """``12:00:01.234 INFO  job.succeeded  task_type=… cost_ms=…``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and the traceback below it."""
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{key}={value}" for key, value in getattr(record, "celeriac", {}).items())
        line = f"{at} {record.levelname:<7} {record.getMessage()}" + (f"  {fields}" if fields else "")
        if record.exc_info or record.exc_text:
            line += "\n" + (record.exc_text or self.formatException(record.exc_info or (None, None, None)))
        return line


def formatter(stream: Any) -> logging.Formatter:
    """The formatter that ``LOG_FORMAT`` asks for on *stream*."""
    wanted = conf.get("LOG_FORMAT")
    if wanted == "auto":
        wanted = "human" if hasattr(stream, "isatty") and stream.isatty() else "json"
    return JsonFormatter() if wanted == "json" else HumanFormatter()


def configure(root: logging.Logger | None = None) -> None:
    """Give every handler of *root* (the root logger when absent) our format and the filter. Idempotent."""
    root = root or logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.StreamHandler(sys.stderr))
    for handler in root.handlers:
        handler.setFormatter(formatter(getattr(handler, "stream", None)))
        protect(handler)


def protect(handler: logging.Handler) -> None:
    """Add the redacting filter to *handler* once."""
    if not any(isinstance(f, RedactingFilter) for f in handler.filters):
        handler.addFilter(RedactingFilter())
