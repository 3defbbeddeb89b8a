"""Runs one staged job in this process, without a message: for tests of projects."""

from __future__ import annotations

import socket
from typing import Any

from celery import current_app
from celery.app.trace import build_tracer

from celeriac.bridge.messages import headers_for
from celeriac.ledger.rows import Staged
from celeriac.settle.settle import redactor


def app_of_this_process() -> Any:
    """Celery's current app."""
    return current_app._get_current_object()


def run(app: Any, staged: Staged) -> None:
    """Claim, run and settle *staged*, as a pool child does. Raises ``AssertionError`` for a task type that *app* doesn't know."""
    app.finalize()
    task = app.tasks.get(staged.task_type)
    if task is None:
        raise AssertionError(f"{app!r} knows no task {staged.task_type!r}. Is the module that has it imported?")
    if task.__trace__ is None:
        task.__trace__ = build_tracer(task.name, task, app.loader, socket.gethostname(), app=app)
    task.__trace__(staged.public_id, [], {}, {**headers_for(staged, 0, redactor()), "hostname": "testing"})
