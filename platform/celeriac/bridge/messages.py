"""The message: ids, a fence and a redacted repr. Never a payload.

It goes to a broker queue of its own and has a content type of its own: two fences against a plain Celery worker, which would
run it with no arguments or throw it away.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

from celery.utils.saferepr import saferepr

from celeriac.bridge import codec
from celeriac.errors import PayloadUnreadable
from celeriac.ledger.rows import Staged
from celeriac.outcomes import Ref
from celeriac.redaction import Redactor

CONTENT_TYPE: Final = "application/x-celeriac"
QUEUE_PREFIX: Final = "celeriac."
HEADER: Final = "celeriac"
BODY: Final = b"[]"


def broker_queue(queue: str) -> str:
    """The broker queue that carries the jobs of *queue*."""
    return QUEUE_PREFIX + queue


def own_queue(worker: uuid.UUID) -> str:
    """The broker queue that incarnation *worker* alone consumes: suspects, and its own probes."""
    return f"{QUEUE_PREFIX}worker.{worker}"


def headers_for(job: Staged, term: int, redact: Redactor) -> dict[str, Any]:
    """Headers as Celery, its events and Flower read them, and ours with the handle of the job."""
    args, kwargs = _reprs(job, redact)
    return {
        "lang": "py",
        "task": job.task_type,
        "id": job.public_id,
        "root_id": str(job.root_id or job.task_id),
        "parent_id": str(job.parent_id) if job.parent_id else None,
        "group": str(job.group_id) if job.group_id else None,
        "retries": job.retry_count,
        "timelimit": [None, None],
        "eta": None,
        "expires": None,
        "argsrepr": args,
        "kwargsrepr": kwargs,
        "origin": f"celeriac-scheduler@{term}",
        HEADER: [job.ref.job, job.ref.fence, term],
    }


def _reprs(job: Staged, redact: Redactor) -> tuple[str, str]:
    if job.payload is None:
        return f"({job.payload_length:,} bytes)", "{}"
    try:
        body = codec.decode_payload(job.payload)
    except PayloadUnreadable:
        return "(unreadable)", "{}"
    asked = body["headers"]
    args = asked.get("argsrepr") or redact.text(saferepr(tuple(body["args"]), 512))
    kwargs = asked.get("kwargsrepr") or redact.text(saferepr(redact.value(body["kwargs"]), 512))
    return args, kwargs


def ref_of(headers: Any) -> Ref | None:
    """The handle in a message's headers, ``None`` for a message that isn't ours."""
    ours = headers.get(HEADER) if isinstance(headers, dict) else None
    if not isinstance(ours, list) or len(ours) != 3 or not all(type(part) is int for part in ours):
        return None
    return Ref(ours[0], ours[1])


def raw(body: Any) -> bytes:
    """A message body as bytes, whatever the transport made of it."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    return json.dumps(body, default=repr).encode()
