"""Sentry, where a project has set it up: one event per failed job, which names the job and holds no secret.

``sentry-sdk``'s own Celery integration captures what leaves a task's body, once: attempts that are repeated end as ``Retry``, which it leaves
alone. Here each event of a run gets the tags ``job_id``, ``task_type`` and ``trace_id`` and passes the redactor. A job that ends without
its body having raised (killed, lost, past its hard limit) is reported by whoever settles it. Our log says ``job.failed`` at level ERROR, and
Sentry makes events of such records: those are dropped, or each failure would be there twice.

Nothing here imports ``sentry_sdk`` unless the project has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from celeriac import events
from celeriac.ledger.rows import Claimed
from celeriac.settle.settle import redactor

#: Job whose run or settle is under way, and whether its failure has been captured.
_told: ContextVar[dict[str, Any] | None] = ContextVar("celeriac_sentry", default=None)
_FINAL: Final = ("job.failed", "job.dead_lettered")
#: Parts of an event that quote what tasks were given, returned or raised.
_OPEN: Final = ("exception", "extra", "breadcrumbs", "logentry", "message", "threads", "stacktrace")
_DEEP: Final = 24

_installed = False


def install() -> None:
    """Called when a worker or a scheduler starts: Sentry is set up by then, or not at all."""
    global _installed
    if _installed or "sentry_sdk" not in sys.modules:
        return
    _installed = True
    from sentry_sdk.scope import add_global_event_processor

    add_global_event_processor(_without_our_log)
    events.subscribe(_report)


@contextmanager
def tagged(job: Claimed) -> Iterator[None]:
    """What Sentry is sent in here is about *job*."""
    if not _installed:
        yield
        return
    import sentry_sdk

    told = {"job_id": job.public_id, "captured": False}
    token = _told.set(told)

    def masked(event: Any, hint: Any) -> Any:
        if _is_the_failure(event, hint):
            told["captured"] = True
        return _masked(event)

    try:
        # A scope of its own, not Sentry's isolation scope: its processors come after those of the Celery integration, which adds the arguments.
        with sentry_sdk.new_scope() as scope:
            for tag, value in _tags(job.public_id, job.task_type, job.trace).items():
                scope.set_tag(tag, value)
            scope.add_event_processor(masked)
            yield
    finally:
        _told.reset(token)


def _tags(job_id: Any, task_type: Any, trace_id: Any) -> dict[str, str]:
    return {"job_id": str(job_id), "task_type": str(task_type), "trace_id": str(trace_id)}


def _report(event: events.Event) -> None:
    """A job has failed for good and nobody has captured why: there was no exception, or no process left to see it."""
    if event.name not in _FINAL:
        return
    said, told = event.fields, _told.get()
    if told is not None and told["captured"] and told["job_id"] == str(said.get("job_id")):
        return
    import sentry_sdk

    reason = str(said.get("reason") or event.name)
    sentry_sdk.capture_event(
        {
            "level": "error",
            "logger": "celeriac",
            "message": f"{said.get('task_type')}: {reason}",
            "fingerprint": ["celeriac", str(said.get("task_type")), reason.partition(":")[0]],
            "tags": _tags(said.get("job_id"), said.get("task_type"), said.get("trace_id")),
        }
    )


def _without_our_log(event: Any, hint: Any) -> Any:
    """What becomes of a job is told above; its line in the log is no event of its own."""
    record = hint.get("log_record")
    if record is not None and record.name == events.logger.name and record.msg in events.EVENTS:
        return None if str(record.msg).startswith("job.") else event
    return event


def _is_the_failure(event: Any, hint: Any) -> bool:
    """Whether it is what ended the run: captured by the Celery integration, or by the guard around the tracer."""
    record = hint.get("log_record")
    if record is not None:
        return bool(record.name == "celeriac.bridge.guarded")
    values = (event.get("exception") or {}).get("values") or [{}]
    return any((value.get("mechanism") or {}).get("type") == "celery" for value in values)


def _masked(event: Any) -> Any:
    mask = redactor()
    for part in _OPEN:
        if event.get(part):
            event[part] = mask.value(event[part], _DEEP)
    return event
