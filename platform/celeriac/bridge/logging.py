"""Celery's logging set-up, with our formats and the redactor on every handler that it makes."""

from __future__ import annotations

from typing import Any

from celery.app.log import Logging

from celeriac.observe.logs import configure, protect


class LedgerLogging(Logging):
    """``app.log``. A project that takes logging over (``setup_logging`` signal, or no hijacking) keeps its formats; it is redacted all the same."""

    def setup_logging_subsystem(self, *args: Any, **kwargs: Any) -> Any:
        receivers = super().setup_logging_subsystem(*args, **kwargs)
        import logging

        if receivers or not self.app.conf.worker_hijack_root_logger:
            for handler in logging.getLogger().handlers:
                protect(handler)
        else:
            configure()
            for handler in logging.getLogger("celery.task").handlers:
                protect(handler)
        return receivers
