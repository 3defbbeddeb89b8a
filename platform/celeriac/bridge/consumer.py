"""The worker's consumer: what is no job is set aside and acknowledged, and nothing that a message does ends the worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import signals
from celery.utils.log import get_logger
from celery.worker.consumer import Consumer

from celeriac import conf
from celeriac.bridge.door import ConsumedQueues
from celeriac.bridge.messages import broker_queue, raw, ref_of
from celeriac.bridge.quarantine import Strange, set_aside

logger = get_logger(__name__)


class LedgerConsumer(Consumer):
    """Celery's consumer with our answers to what can't be run."""

    #: Set by the worker's ``Incarnation`` step before the consumer starts.
    celeriac: Any = None

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """A handler that nothing leaves but a lost connection: a two-item JSON body would end a plain worker, and the next one."""
        handle = super().create_task_handler(*args, **kwargs)

        heard = self.celeriac.hearing.heard

        def careful(message: Any) -> None:
            if heard(message):
                message.ack_log_error(logger, self.connection_errors)
                return
            try:
                handle(message)
            except self.connection_errors:
                raise
            except Exception as exc:
                logger.exception("A message could not be handled")
                self._quarantine(message, f"it raised {type(exc).__name__}: {exc}")

        return careful

    def on_ready(self) -> None:
        """Messages come in from now on."""
        self.celeriac.hearing.ready(self)
        super().on_ready()

    def on_close(self) -> None:
        """The connection is lost; Celery goes on to make it anew."""
        self.celeriac.hearing.lost()
        super().on_close()

    def perform_pending_operations(self) -> None:
        """Once a turn, where there is no event loop (green pools)."""
        self.celeriac.hearing.turn()
        super().perform_pending_operations()

    def on_unknown_message(self, body: Any, message: Any) -> None:
        self._quarantine(message, "no task message: it has no task header")
        signals.task_rejected.send(sender=self, message=message, exc=None)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        name = message.headers.get("task") if isinstance(message.headers, dict) else None
        ref = ref_of(message.headers)
        if ref is not None:
            self.celeriac.undertaker.park_unknown(ref, str(name))
            message.ack_log_error(logger, self.connection_errors)
        else:
            self._quarantine(message, f"unknown task {name!r}: not registered on this worker")
        signals.task_unknown.send(
            sender=self, message=message, exc=exc, name=name, id=(message.headers or {}).get("id")
        )

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        self._quarantine(message, f"invalid task message: {exc}")
        signals.task_rejected.send(sender=self, message=message, exc=exc)

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self._quarantine(message, f"its body can't be decoded: {exc}")

    def add_task_queue(self, queue: Any, *args: Any, **options: Any) -> None:
        """``control.add_consumer``: both broker queues of it, and our card says so."""
        super().add_task_queue(queue, *args, **options)
        name = getattr(queue, "name", queue)
        ours = ConsumedQueues(create_missing=True, default_exchange=None)[broker_queue(name)]
        if not self.task_consumer.consuming_from(ours.name):
            self.task_consumer.add_queue(ours)
            self.task_consumer.consume()
        self.celeriac.heartbeat.hurry()

    def cancel_task_queue(self, queue: Any) -> None:
        """``control.cancel_consumer``: both broker queues of it."""
        super().cancel_task_queue(queue)
        self.task_consumer.cancel_by_queue(broker_queue(queue))
        self.celeriac.heartbeat.hurry()

    def refuse_later(self, message: Any) -> Callable[[str], None]:
        """What sets *message* aside, from another thread, for the reason that it is given."""
        return lambda reason: self.call_soon(lambda: self._quarantine(message, reason))

    def _quarantine(self, message: Any, reason: str) -> None:
        info = message.delivery_info or {}
        strange = Strange(
            body=raw(message.body)[: conf.get("QUARANTINE_BYTES")],
            size=len(raw(message.body)),
            queue=str(info.get("routing_key") or ""),
            reason=reason,
            content_type=str(message.content_type or ""),
            headers=repr(message.headers),
        )
        set_aside(strange, self.celeriac)
        message.ack_log_error(logger, self.connection_errors)
