"""Our Django fixup: database connections are kept between jobs, and no job finds what another left.

Celery's closes every connection before and after each task, whatever ``CONN_MAX_AGE`` says: a new connection per job.
"""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery
from celery.fixups import django as celery_fixup
from django.db import connections

from celeriac import conf
from celeriac.run.run import roll_back_what_was_left_open


def fixup(app: Celery, env: str = "DJANGO_SETTINGS_MODULE") -> KeptFixup | None:
    """Install the fixup where Django is configured by *env*."""
    if not os.environ.get(env) or "django" in app.loader_cls.lower():
        return None
    installed: KeptFixup = KeptFixup(app).install()
    return installed


class KeptWorkerFixup(celery_fixup.DjangoWorkerFixup):
    """Keeps connections in prefork, threads and solo; closes them per task in greenlet pools and with Django's own pool."""

    def __init__(self, app: Celery) -> None:
        super().__init__(app)
        self._since: dict[int, tuple[Any, float]] = {}

    def on_task_prerun(self, sender: Any, **kwargs: Any) -> None:
        if not self._keeps():
            super().on_task_prerun(sender, **kwargs)

    def on_task_postrun(self, sender: Any, **kwargs: Any) -> None:
        if not self._keeps():
            super().on_task_postrun(sender, **kwargs)
            return
        if getattr(sender.request, "is_eager", False):
            return
        roll_back_what_was_left_open()
        self._close_old()
        self.close_cache()

    def _keeps(self) -> bool:
        pool = self.worker.pool_cls if self.worker is not None else ""
        name = pool if isinstance(pool, str) else pool.__module__
        if "gevent" in name or "eventlet" in name:
            return False
        return not any((settings.get("OPTIONS") or {}).get("pool") for settings in connections.settings.values())

    def _close_old(self) -> None:
        """Connections beyond their age are closed between jobs: a server-side process grows with what it has cached."""
        oldest = conf.get("CONNECTION_MAX_AGE")
        now = time.monotonic()
        for connection in connections.all(initialized_only=True):
            if connection.connection is None or connection.in_atomic_block:
                continue
            since = self._since.get(id(connection))
            if since is None or since[0] is not connection.connection:
                self._since[id(connection)] = (connection.connection, now)
            elif now - since[1] > oldest:
                connection.close()


class KeptFixup(celery_fixup.DjangoFixup):
    """Celery's fixup with our worker part."""

    _worker_fixup: KeptWorkerFixup | None = None

    @property
    def worker_fixup(self) -> KeptWorkerFixup:
        if self._worker_fixup is None:
            self._worker_fixup = KeptWorkerFixup(self.app)
        return self._worker_fixup

    @worker_fixup.setter
    def worker_fixup(self, value: KeptWorkerFixup) -> None:
        self._worker_fixup = value
