"""The enqueue door: ``AMQP`` whose ``send_task_message`` writes rows instead of publishing.

Everything that sends a task comes through here: ``delay``, ``apply_async``, ``send_task``, canvas, beat, ``retry()``, the tracer's links. What
is sent from inside a run is told apart:

* under the job's own id: a retry *wish*, remembered by the run and written by settle (written now, ``retry()`` in ``atomic()`` would
  roll itself back);
* by the tracer after the body (``_retry_publish`` brackets it): *held*, and written with a settled success;
* anything else: a job like any other, in the transaction that is open in the body.

Tasks that stay plain Celery (``bridge.plain``) pass through to Celery's own sender, at once, wherever they are sent from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from celery import signals
from celery.app.amqp import AMQP, Queues, task_message
from celery.utils.nodenames import anon_nodename
from celery.utils.saferepr import saferepr
from kombu import Queue
from kombu.utils.functional import maybe_list

from celeriac.asked import ADOPTED, NewJob
from celeriac.bridge.asking import (
    job_of,
    queue_name,
    refuse_what_is_not_there_yet,
    refuse_what_plain_celery_has_not,
)
from celeriac.bridge.messages import broker_queue
from celeriac.bridge.plain import stays_plain
from celeriac.enqueue.accept import accept
from celeriac.run.current import current, current_of
from celeriac.run.run import Run, Wish
from celeriac.settle.settle import redactor

_holding: ContextVar[bool] = ContextVar("celeriac_holding", default=False)
_telling: ContextVar[bool] = ContextVar("celeriac_telling", default=False)


@contextmanager
def telling() -> Iterator[None]:
    """What is sent in here follows from an adopted job, and its end is told where that one's is."""
    token = _telling.set(True)
    try:
        yield
    finally:
        _telling.reset(token)


@contextmanager
def holding() -> Iterator[None]:
    """What a run sends in here is written with its settle, or dropped with it."""
    token = _holding.set(current() is not None)
    try:
        yield
    finally:
        _holding.reset(token)


class ConsumedQueues(Queues):
    """``-Q sms`` consumes ``celeriac.sms``, where ids-only messages go, and ``sms``, where plain Celery's go.

    Queues of their own: a plain worker would throw an ids-only message away.
    """

    @property
    def consume_from(self) -> dict[str, Queue]:
        plain: dict[str, Queue] = super().consume_from
        ours = {broker_queue(name): Queue(broker_queue(name), routing_key=broker_queue(name)) for name in plain}
        return {**ours, **plain}

    @property
    def served(self) -> list[str]:
        """Names of the queues whose jobs this worker runs."""
        return sorted(super().consume_from)


class Door(AMQP):
    """Celery's message factory and sender, writing to the ledger."""

    queues_cls = ConsumedQueues

    def _retry_publish(self, publish: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The tracer's bracket around links and the next step of a chain."""
        with holding():
            return publish(*args, **kwargs)

    def as_task_v2(
        self,
        task_id: str,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        countdown: float | None = None,
        eta: Any = None,
        group_id: str | None = None,
        group_index: int | None = None,
        expires: Any = None,
        retries: int = 0,
        chord: Any = None,
        callbacks: Any = None,
        errbacks: Any = None,
        reply_to: str | None = None,
        time_limit: float | None = None,
        soft_time_limit: float | None = None,
        create_sent_event: bool = False,
        root_id: str | None = None,
        parent_id: str | None = None,
        shadow: str | None = None,
        chain: Any = None,
        now: Any = None,
        timezone: Any = None,
        origin: str | None = None,
        ignore_result: bool | None = None,
        argsrepr: str | None = None,
        kwargsrepr: str | None = None,
        stamped_headers: Any = None,
        replaced_task_nesting: int = 0,
        **options: Any,
    ) -> task_message:
        """A message as Celery makes it, with two differences.

        ``countdown`` and numeric ``expires`` stay as they are: the database's clock turns them into times. Reprs are made only for
        somebody who looks (a signal's receiver, redacted): most enqueues have nobody.
        """
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, (list, tuple)):
            raise TypeError("task args must be a list or tuple")
        if not isinstance(kwargs, Mapping):
            raise TypeError("task keyword arguments must be a mapping")
        headers: dict[str, Any] = {
            "lang": "py",
            "task": name,
            "id": task_id,
            "shadow": shadow,
            "eta": eta,
            "expires": expires,
            "group": group_id,
            "group_index": group_index,
            "retries": retries,
            "timelimit": [time_limit, soft_time_limit],
            "root_id": root_id or task_id,
            "parent_id": parent_id,
            "argsrepr": argsrepr,
            "kwargsrepr": kwargsrepr,
            "origin": origin or anon_nodename(),
            "ignore_result": ignore_result,
            "replaced_task_nesting": replaced_task_nesting,
            "stamped_headers": stamped_headers,
            "stamps": {header: options[header] for header in stamped_headers or []},
            "countdown": countdown,
        }
        return task_message(
            headers=headers,
            properties={"correlation_id": task_id, "reply_to": reply_to or ""},
            body=(args, kwargs, {"callbacks": callbacks, "errbacks": errbacks, "chain": chain, "chord": chord}),
            sent_event=None,
        )

    @property
    def create_task_message(self) -> Callable[..., task_message]:
        return self._make

    @property
    def send_task_message(self) -> Callable[..., None]:
        return self._send

    def _make(self, task_id: str, name: str, *args: Any, **options: Any) -> task_message:
        if not self._plainly(task_id, name):
            return self.as_task_v2(task_id, name, *args, **options)
        # Not by Celery's table of protocols: that has found our method there.
        make = self.as_task_v1 if self.app.conf.task_protocol == 1 else super().as_task_v2
        message: task_message = make(task_id, name, *args, **options)
        return message

    def _send(self, producer: Any, name: str, message: task_message, **options: Any) -> None:
        if not self._plainly(message.properties["correlation_id"], name):
            self._write(producer, name, message, **options)
            return
        refuse_what_plain_celery_has_not(name, options)
        with self.app.publishing(producer) as able:
            super().send_task_message(able, name, message, **options)

    def _plainly(self, task_id: str, name: str) -> bool:
        """A job goes on as a job: its own retry and what takes its place are no messages, whatever the task says by now."""
        return stays_plain(self.app, name) and current_of(task_id) is None

    def _write(
        self,
        producer: Any,
        name: str,
        message: task_message,
        exchange: Any = None,
        routing_key: str | None = None,
        queue: Any = None,
        headers: Mapping[str, Any] | None = None,
        priority: int | None = None,
        **options: Any,
    ) -> None:
        """Write the job that *message* asks for. Signature and signals as Celery's sender has them."""
        asked: dict[str, Any] = message.headers
        if headers:
            asked.update(headers)
        refuse_what_is_not_there_yet(options)
        named = queue_name(self, queue, exchange, routing_key)
        where = {"exchange": exchange or "", "routing_key": routing_key or named}
        given: dict[str, Any] = {key: asked[key] for key in ("argsrepr", "kwargsrepr")}
        if signals.before_task_publish.receivers or signals.after_task_publish.receivers:
            mask = redactor()
            args, kwargs, _ = message.body
            asked["argsrepr"] = mask.text(given["argsrepr"] or saferepr(args, self.argsrepr_maxsize))
            asked["kwargsrepr"] = mask.text(given["kwargsrepr"] or saferepr(kwargs, self.kwargsrepr_maxsize))
        if signals.before_task_publish.receivers:
            signals.before_task_publish.send(
                sender=name,
                body=message.body,
                headers=asked,
                properties=message.properties,
                declare=maybe_list(options.get("declare")) or [],
                retry_policy=options.get("retry_policy") or {},
                **where,
            )
        if asked.get("ignore_result") == getattr(self.app._tasks.get(name), "ignore_result", None):
            given["ignore_result"] = None  # what the task says anyway needn't be kept with each job
        inside = current()
        if _telling.get() or (_holding.get() and inside is not None and f'"{ADOPTED}":true' in inside.claimed.payload):
            given[ADOPTED] = True
        message = message._replace(headers={**asked, **given})
        job = job_of(name, message, named, priority, options)
        run = current_of(asked["id"])
        if run is not None:
            _wish(run, job, message)
        elif _holding.get() and inside is not None:
            inside.held.append(job)
        else:
            accept([job], self.app.ring)
        if signals.after_task_publish.receivers:
            signals.after_task_publish.send(sender=name, body=message.body, headers=asked, **where)


def _wish(run: Run, job: NewJob, message: task_message) -> None:
    """``retry()``: the same job, later. ``replace()`` by a plain task: the same job with another body.

    The payload is written again only when it says something else: a retry builds its headers anew, in this process.
    """
    before, after = json.loads(run.claimed.payload), json.loads(job.payload)
    headers = before.pop("headers", None)
    after.pop("headers", None)
    payload = None
    if before != after:
        payload = json.dumps({**after, "headers": headers} if headers else after, separators=(",", ":"))
    other = (job.task_type, job.queue) if message.headers.get("replaced_task_nesting") else None
    run.wish = Wish(job.delay, job.retry_count, payload, job.run_at, replaced_by=other)
