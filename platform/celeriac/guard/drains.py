"""Drains: a worker that is told to takes nothing new, finishes what runs, and ends. ``Control`` rows, one an incarnation: who, when, why.

The worker finds a mark in its own row with each beat (a look into another table would cost the database a third of a beat more), so a drain takes effect within a second or so, and so does taking it back while the worker still
finishes. The row of an incarnation that has ended says nothing to the next one: that has an id of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from django.db import transaction

from celeriac import conf, events
from celeriac.guard import controls
from celeriac.models import Control, Worker

PREFIX: Final = "drain:worker:"


def begin(worker: uuid.UUID, *, actor: str, reason: str) -> Control:
    """Have incarnation *worker* take nothing new and end when it has finished. Returns the row with its new version."""
    return _set(worker, True, actor, reason)


def end(worker: uuid.UUID, *, actor: str, reason: str) -> Control:
    """Have incarnation *worker* go on, unless it has ended. Returns the row with its new version."""
    return _set(worker, False, actor, reason)


def asked(workers: Iterable[uuid.UUID]) -> dict[uuid.UUID, Control]:
    """Of *workers* those that are to drain, with who asked for it, when and why."""
    keys = [f"{PREFIX}{worker}" for worker in workers]
    rows = Control.objects.using(conf.alias()).filter(key__in=keys, value=True)
    return {uuid.UUID(row.key.removeprefix(PREFIX)): row for row in rows}


def _set(worker: uuid.UUID, drain: bool, actor: str, reason: str) -> Control:
    using = conf.alias()
    with transaction.atomic(using=using):
        row = controls.put(f"{PREFIX}{worker}", drain, actor=actor, reason=reason)
        Worker.objects.using(using).filter(pk=worker).update(drain=drain)
    events.emit("switch.changed", worker=str(worker), target="off" if drain else "on", reason=reason, actor=actor)
    return row
