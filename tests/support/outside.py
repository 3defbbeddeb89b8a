"""An app some of whose tasks stay plain Celery, with results in Redis: ``celery -A tests.support.outside``."""

from __future__ import annotations

import os
from typing import Any

from celery import signals

from celeriac import Celery
from tests.support import effects, probe

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings.test")

app = Celery("outside", set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")
if os.environ.get("OUTSIDE_RESULTS"):
    app.conf.result_backend = os.environ["OUTSIDE_RESULTS"]


@app.task(bind=True)
def job(self: Any, word: str) -> str:
    """A job like any other."""
    effects.row(self.request.id, word)
    return word


@app.task(bind=True, ledger=False)
def plain(self: Any, word: str) -> str:
    """Plain by its own word."""
    effects.row(self.request.id, word)
    return word


@app.task(bind=True, name="reports.yearly")
def yearly(self: Any, word: str) -> str:
    """Plain by a glob of the settings."""
    effects.row(self.request.id, word)
    return word


@app.task(bind=True, name="reports.audited", ledger=True)
def audited(self: Any, word: str) -> str:
    """A job by its own word, whatever the glob says."""
    effects.row(self.request.id, word)
    return word


@app.task(bind=True, ledger=False, max_retries=3)
def plain_again(self: Any, word: str) -> str:
    """Plain, and through at its third attempt."""
    effects.row(self.request.id, word)
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return word


@app.task(ledger=False)
def plain_fails(word: str) -> None:
    """Plain, and raises."""
    raise probe.Refused(word)


@app.task(bind=True, ledger=False)
def plain_holds(self: Any, word: str, gate: str) -> str:
    """Plain, and waits for the gate."""
    effects.row(self.request.id, word)
    probe._through(gate)
    return word


@app.task(ledger=False)
def plain_sends(word: str) -> str:
    """Plain, and enqueues a job."""
    return str(job.delay(word).id)


@app.task
def total(numbers: list[str]) -> str:
    """A job that joins what was before it."""
    return "+".join(sorted(numbers))


@app.task(ledger=False)
def plain_total(numbers: list[str]) -> str:
    """Joins, too, and is plain."""
    return "+".join(sorted(numbers))


@app.task(bind=True)
def replaced_by_plain(self: Any, word: str) -> None:
    """A job whose place is taken by a plain task."""
    raise self.replace(plain.s(word))


@app.task(bind=True, ledger=False)
def plain_replaced(self: Any, word: str) -> None:
    """A plain task whose place is taken by a job."""
    raise self.replace(job.s(word))


if os.environ.get("OUTSIDE_LISTENS"):

    @signals.task_received.connect(weak=False)
    def _received(request: Any, **more: Any) -> None:
        effects.line(request.id, type(request).__name__)
