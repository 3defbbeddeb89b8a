"""The shop's Celery application."""

from __future__ import annotations

import os
from pathlib import Path

from celeriac import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings.dev")
# `celery -A tasks flower` reads this file wherever it is started; it refuses to run without authentication.
os.environ.setdefault("FLOWER_CONF", str(Path(__file__).resolve().parent.parent / "compose" / "flowerconfig.py"))

app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
# Autodiscovery looks for `<app>.tasks` only; the shop keeps one module a job type, under `tasks.jobs`.
app.autodiscover_tasks(["tasks"], related_name="jobs")
