"""What the worker does with a message, per task: ``Task.Strategy``.

Ours builds one request for the job and makes one pool call. A plain Celery message goes to Celery's own strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import signals
from celery.worker import strategy as celery_strategy
from celery.worker.state import task_reserved

from celeriac.bridge.messages import ref_of
from celeriac.bridge.requests import JobRequest, LateTask


def default(task: Any, app: Any, consumer: Any, **kwargs: Any) -> Callable[..., None]:
    """The message handler of *task* on this worker."""
    plain = celery_strategy.default(LateTask(task), app, consumer, **kwargs)
    ack_early = consumer.connection.transport.driver_type == "redis"
    eventer = consumer.event_dispatcher

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **more: Any) -> None:
        ref = ref_of(message.headers)
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
