"""What the worker does with a message, per task: ``Task.Strategy``.

A job of the ledger: one request, one pool call. A message of plain Celery is adopted, or goes to Celery's own strategy where the project wants
that: for all (``CELERIAC["ADOPT"]``), or for this task (``bridge.plain``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from celery import signals
from celery.utils.log import get_logger
from celery.worker import strategy as celery_strategy
from celery.worker.state import task_reserved

from celeriac import conf
from celeriac.bridge.adoption import adopt
from celeriac.bridge.messages import ref_of
from celeriac.bridge.plain import stays_plain
from celeriac.bridge.requests import JobRequest, LateTask

logger = get_logger(__name__)


def default(task: Any, app: Any, consumer: Any, **kwargs: Any) -> Callable[..., None]:
    """The message handler of *task* on this worker."""
    left_alone = stays_plain(app, task.name)
    plain = celery_strategy.default(task if left_alone else LateTask(task), app, consumer, **kwargs)
    adopts = conf.get("ADOPT") and not left_alone
    ack_early = consumer.connection.transport.driver_type == "redis"
    eventer = consumer.event_dispatcher

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **more: Any) -> None:
        ref = ref_of(message.headers)
        if ref is None and adopts:
            written = partial(ack, logger, consumer.connection_errors)
            job = adopt(app, task.name, message, body, written, consumer.refuse_later(message))
            consumer.celeriac.undertaker.write(job)
            return
        if ref is None:
            plain(message, body, ack, reject, callbacks, **more)
            return
        request = JobRequest(
            message,
            ref,
            consumer.celeriac.undertaker,
            ack_early=ack_early,
            on_ack=ack,
            on_reject=reject,
            app=app,
            hostname=consumer.hostname,
            eventer=eventer,
            task=task,
            connection_errors=consumer.connection_errors,
        )
        signals.task_received.send(sender=consumer, request=request)
        request.send_event(
            "task-received",
            name=request.name,
            args=request.argsrepr,
            kwargs=request.kwargsrepr,
            root_id=request.root_id,
            parent_id=request.parent_id,
            retries=message.headers.get("retries", 0),
            eta=None,
            expires=None,
        )
        task_reserved(request)
        for callback in callbacks or ():
            callback(request)
        consumer.on_task_request(request)

    return handle
