"""Messages of plain Celery become jobs: what was left in the broker at a switch-over, and what a service sends that still uses plain Celery.

The message is acknowledged when its row is committed, not before; sent twice, the row exists. From then on it is a job like any other. What its
sender looks at is the result backend that the project has configured, so an adopted job's end is written there, too
(``bridge.propagation``), and so is the end of what Celery sends along with it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from celery.app.amqp import task_message
from celery.utils.log import get_logger
from celery.worker.strategy import hybrid_to_proto2, proto1_to_proto2

from celeriac.asked import ADOPTED, NewJob
from celeriac.bridge.asking import job_of
from celeriac.enqueue.accept import accept
from celeriac.errors import EnqueueError, JobExists

logger = get_logger(__name__)


def job_in(app: Any, name: str, message: Any, body: Any) -> NewJob:
    """The job that a plain *message* asks for. Raises ``EnqueueError`` and its kin for one that the ledger can't hold."""
    (args, kwargs, embed), headers, utc = _read(message, body)
    headers = {
        "countdown": None,
        "retries": 0,
        "group": None,
        "root_id": None,
        "parent_id": None,
        **headers,
        ADOPTED: True,
    }
    headers["timelimit"] = tuple(headers.get("timelimit") or (None, None))
    for moment in ("eta", "expires"):
        headers[moment] = _aware(headers.get(moment), utc)
    sent = task_message(
        headers, dict(message.properties or {}), (list(args or ()), dict(kwargs or {}), dict(embed or {})), None
    )
    return job_of(name, sent, _queue(app, message), None, {})


def adopt(
    app: Any, name: str, message: Any, body: Any, ack: Callable[[], Any], refused: Callable[[str], None]
) -> Callable[[], None]:
    """What is to be done where the ledger may be written: it raises while the database is away, and is called again then."""
    try:
        job = job_in(app, name, message, body)
    except EnqueueError as exc:
        reason = f"it can't be adopted: {exc}"
        return lambda: refused(reason)

    def write() -> None:
        try:
            accept([job], app.ring)
        except JobExists as exc:
            logger.info("A message of plain Celery came again: %s", exc)
        ack()

    return write


def _read(message: Any, body: Any) -> tuple[tuple[Any, Any, Any], dict[str, Any], bool]:
    """Arguments and headers of any of Celery's protocols."""
    payload = message.payload
    if body is None and "args" not in payload:
        args, kwargs, embed = payload
        return (args, kwargs, embed), dict(message.headers), True
    read = hybrid_to_proto2(message, payload) if "args" in payload else proto1_to_proto2(message, body)
    return read[0], read[1], read[3]


def _aware(moment: Any, utc: bool) -> Any:
    """A naive time in a message is UTC, unless the sender has said otherwise."""
    if isinstance(moment, str) and utc:
        parsed = datetime.fromisoformat(moment)
        return moment if parsed.tzinfo is not None else f"{moment}+00:00"
    return moment


def _queue(app: Any, message: Any) -> str:
    """The queue that it came from, as far as the message tells; on a broker with exchanges by its routing key."""
    key = str((message.delivery_info or {}).get("routing_key") or "")
    queues = app.amqp.queues
    if key in queues.served:
        return key
    named = [name for name in queues.served if queues[name].routing_key == key]
    return named[0] if named else str(app.conf.task_default_queue)
