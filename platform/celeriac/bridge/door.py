"""The enqueue door: ``AMQP`` whose ``send_task_message`` writes rows instead of publishing.

Everything that sends a task comes through here: ``delay``, ``apply_async``, ``send_task``, canvas, beat, ``retry()``, the tracer's links. What
is sent from inside a run is told apart:

* under the job's own id: a retry *wish*, remembered by the run and written by settle (written now, ``retry()`` in ``atomic()`` would
  roll itself back);
* by the tracer after the body (``_retry_publish`` brackets it): *held*, and written with a settled success;
* anything else: a job like any other, in the transaction that is open in the body.
"""

from __future__ import annotations

import math
import numbers
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final

from celery import signals
from celery.app.amqp import AMQP, Queues, task_message
from celery.utils.nodenames import anon_nodename
from celery.utils.saferepr import saferepr
from django.utils import timezone
from kombu import Queue
from kombu.utils.functional import maybe_list

from celeriac import ids
from celeriac.asked import NewJob
from celeriac.bridge import codec
from celeriac.bridge.messages import broker_queue
from celeriac.enqueue.accept import accept
from celeriac.errors import EnqueueError, OptionNotSupported
from celeriac.run.current import current, current_of
from celeriac.run.run import Run, Wish
from celeriac.settle.settle import redactor

#: Headers of a task message that have columns, or no meaning in the ledger; all others are kept in the payload.
_COLUMNS: Final = frozenset(
    "lang task id eta expires group retries root_id parent_id argsrepr kwargsrepr timelimit origin shadow group_index ignore_result "
    "replaced_task_nesting stamped_headers stamps".split()
)
#: Headers that are kept when they say something.
_KEPT: Final = (
    "shadow",
    "origin",
    "group_index",
    "ignore_result",
    "replaced_task_nesting",
    "stamped_headers",
    "stamps",
)
_LATER: Final = ("idempotency_key", "ordering_key", "concurrency_key")

_holding: ContextVar[bool] = ContextVar("celeriac_holding", default=False)


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
        token = _holding.set(current() is not None)
        try:
            return publish(*args, **kwargs)
        finally:
            _holding.reset(token)

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

        ``countdown`` and numeric ``expires`` stay as they are: the database's clock turns them into times. Reprs are redacted, and made
        only for somebody who looks (a signal's receiver): most enqueues have nobody.
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
        if signals.before_task_publish.receivers or signals.after_task_publish.receivers:
            mask = redactor()
            headers["argsrepr"] = mask.text(argsrepr or saferepr(args, self.argsrepr_maxsize))
            headers["kwargsrepr"] = mask.text(kwargsrepr or saferepr(kwargs, self.kwargsrepr_maxsize))
        return task_message(
            headers=headers,
            properties={"correlation_id": task_id, "reply_to": reply_to or ""},
            body=(args, kwargs, {"callbacks": callbacks, "errbacks": errbacks, "chain": chain, "chord": chord}),
            sent_event=None,
        )

    @property
    def create_task_message(self) -> Callable[..., task_message]:
        return self.as_task_v2

    @property
    def send_task_message(self) -> Callable[..., None]:
        return self._write

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
        for option in _LATER:
            if options.get(option) is not None:
                raise OptionNotSupported(
                    f"{option}= is not part of this version; see the roadmap in docs/. Nothing was enqueued."
                )
        named = _queue_name(self, queue, exchange, routing_key)
        where = {"exchange": exchange or "", "routing_key": routing_key or named}
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
        job = self._job(name, message, named, priority, options.get("biz_id"), bool(options.get("celeriac_fresh")))
        run = current_of(asked["id"])
        if run is not None:
            _wish(run, job, message)
        elif _holding.get() and (inside := current()) is not None:
            inside.held.append(job)
        else:
            accept([job], self.app.ring)
        if signals.after_task_publish.receivers:
            signals.after_task_publish.send(sender=name, body=message.body, headers=asked, **where)

    def _job(
        self, name: str, message: task_message, queue: str, priority: int | None, biz_id: str | None, fresh: bool
    ) -> NewJob:
        headers, _, (args, kwargs, embed), _ = message
        task_id, alias = (uuid.UUID(headers["id"]), None) if fresh else ids.to_uuid(headers["id"])
        hard, soft = headers["timelimit"]
        kept = {key: headers[key] for key in _KEPT if headers.get(key)}
        if headers.get("ignore_result") is False:
            kept["ignore_result"] = False
        kept.update({k: v for k, v in headers.items() if k not in _COLUMNS and k != "countdown"})
        if soft is not None:
            kept["soft_time_limit"] = soft
        if (
            headers.get("argsrepr")
            and not signals.before_task_publish.receivers
            and not signals.after_task_publish.receivers
        ):
            kept["argsrepr"] = redactor().text(str(headers["argsrepr"]))
        if headers.get("kwargsrepr") and "argsrepr" in kept:
            kept["kwargsrepr"] = redactor().text(str(headers["kwargsrepr"]))
        delay, run_at = _when(headers.get("countdown"), headers["eta"], "countdown")
        expires = headers["expires"]
        lasts, until = (
            _when(expires, None, "expires")
            if isinstance(expires, numbers.Real)
            else (None, _moment(expires, "expires"))
        )
        return NewJob(
            task_id=task_id,
            alias=alias,
            task_type=name,
            queue=queue,
            payload=codec.encode_payload(args, kwargs, embed, kept),
            priority=_priority(priority),
            biz_id=None if biz_id is None else str(biz_id),
            root_id=_other(headers["root_id"], task_id),
            parent_id=_other(headers["parent_id"], None),
            group_id=_other(headers["group"], None),
            delay=max(0.0, delay or 0.0),
            run_at=run_at,
            expires_in=lasts,
            expires_at=until,
            time_limit=None if hard is None else float(hard),
            retry_count=int(headers["retries"] or 0),
            fresh=fresh,
        )


def _wish(run: Run, job: NewJob, message: task_message) -> None:
    """``retry()``: the same job, later. ``replace()`` by a plain task: the same job with another body.

    Arguments are written again only when they were changed.
    """
    payload = None if job.payload == run.claimed.payload else job.payload
    other = (job.task_type, job.queue) if message.headers.get("replaced_task_nesting") else None
    run.wish = Wish(job.delay, job.retry_count, payload, job.run_at, replaced_by=other)


def _queue_name(amqp: Door, queue: Any, exchange: Any, routing_key: str | None) -> str:
    if queue is None and exchange is None:
        return str(amqp.app.conf.task_default_queue)
    if queue is None:
        return str(routing_key or getattr(exchange, "name", exchange) or amqp.app.conf.task_default_queue)
    return str(getattr(queue, "name", queue))


def _when(seconds: Any, eta: Any, what: str) -> tuple[float | None, datetime | None]:
    """Seconds from now, or a moment. A countdown below zero is due now; both given: the countdown wins, as in Celery."""
    if seconds is None or (not seconds and eta is not None):
        return None, _moment(eta, "eta")
    number = float(seconds) if isinstance(seconds, numbers.Real) and not isinstance(seconds, bool) else math.nan
    if not math.isfinite(number) or abs(number) > 3_000_000_000:
        raise EnqueueError(f"{what}={seconds!r}: give a number of seconds, less than 95 years. Nothing was enqueued.")
    return number, None


def _moment(value: Any, what: str) -> datetime | None:
    """An aware moment. A naive one is read in Django's current time zone, on every host alike."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise EnqueueError(f"{what}={value!r} is no ISO 8601 time. Nothing was enqueued.") from None
    if not isinstance(value, datetime):
        raise EnqueueError(f"{what}={value!r}: give a datetime. Nothing was enqueued.")
    return timezone.make_aware(value) if timezone.is_naive(value) else value


def _priority(priority: Any) -> int:
    """0-9, higher runs first; what other brokers allow beyond is cut to that."""
    return 0 if priority is None else max(0, min(9, int(priority)))


def _other(task_id: str | None, own: uuid.UUID | None) -> uuid.UUID | None:
    """Another job's id as UUID; absent and the job's own are NULL."""
    if not task_id:
        return None
    parsed = ids.to_uuid(task_id)[0]
    return None if parsed == own else parsed
