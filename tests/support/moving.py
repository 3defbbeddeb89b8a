"""A project before and after its switch: ``MOVING_CELERY=celery`` or ``celeriac`` is its one import. ``celery -A tests.support.moving``."""

from __future__ import annotations

import os
from typing import Any

import celery

import celeriac
from tests.support import effects, probe

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings.test")

_IMPORTED: dict[str, Any] = {"celery": celery.Celery, "celeriac": celeriac.Celery}

app = _IMPORTED[os.environ.get("MOVING_CELERY", "celeriac")]("moving", set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.broker_transport_options = {
    # Seconds after which Redis' transport takes an unacknowledged message for lost.
    "visibility_timeout": float(os.environ.get("MOVING_VISIBILITY", "3600")),
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
if os.environ.get("MOVING_RESULTS"):
    app.conf.result_backend = os.environ["MOVING_RESULTS"]


@app.task(bind=True, name="moving.sms")
def sms(self: Any, word: str) -> str:
    """Leave one effect."""
    effects.row(self.request.id, word)
    return word


@app.task(bind=True, name="moving.hold")
def hold(self: Any, word: str, gate: str) -> str:
    """Leave one effect, and wait for the gate."""
    effects.row(self.request.id, word)
    probe._through(gate)
    return word
