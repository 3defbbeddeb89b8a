"""A job's request as Celery would have built it from a message of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.app.task import Context

from celeriac.ledger.rows import Claimed
from celeriac.models import Job


def as_request(job: Claimed | Job, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The request of *job* with its decoded payload *body*; *more* is what only a run has."""
    asked = dict(body["headers"])
    for limit in ("time_limit", "soft_time_limit"):
        asked.pop(limit, None)
    return {
        **asked,
        "id": job.public_id,
        "task": job.task_type,
        "args": body["args"],
        "kwargs": body["kwargs"],
        "retries": job.retry_count,
        "root_id": str(job.root_id or job.task_id) if job.alias is None or job.root_id else job.public_id,
        "parent_id": str(job.parent_id) if job.parent_id else None,
        "group": str(job.group_id) if job.group_id else None,
        "callbacks": body.get("callbacks"),
        "errbacks": body.get("errbacks"),
        "chain": body.get("chain"),
        "chord": body.get("chord"),
        "correlation_id": job.public_id,
        "delivery_info": {
            "exchange": "",
            "routing_key": job.queue,
            "priority": job.priority,
            "redelivered": job.attempt > 1,
        },
        "is_eager": False,
        **more,
    }


def context_of(job: Job, body: Mapping[str, Any]) -> Context:
    """What Celery's backend wants to know of a job that nobody runs any more."""
    return Context(as_request(job, body))
