"""From a message as Celery makes it to what the ledger is asked for. Pure: nothing here writes, or looks at a clock."""

from __future__ import annotations

import math
import numbers
import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from celery.app.amqp import task_message
from django.utils import timezone

from celeriac import ids
from celeriac.asked import NewJob
from celeriac.bridge import codec
from celeriac.errors import EnqueueError, OptionNotSupported
from celeriac.policy import is_seconds
from celeriac.settle.settle import redactor
from celeriac.text import storable

#: Headers of a task message that have columns, or no meaning in the ledger; all others are kept in the payload.
_COLUMNS: Final = frozenset(
    "lang task id eta expires countdown group retries root_id parent_id argsrepr kwargsrepr timelimit origin shadow group_index "
    "ignore_result replaced_task_nesting stamped_headers stamps".split()
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

#: Seconds: what a timestamp of the database can surely hold (95 years).
_LONGEST: Final = 3_000_000_000


def refuse_what_is_not_there_yet(options: Mapping[str, Any]) -> None:
    """An option that this version doesn't have is an error and not silently dropped. Payloads are JSON: pickle runs code."""
    if options.get("serializer") == "pickle":
        raise EnqueueError(
            "serializer='pickle': payloads are JSON only, since unpickling runs code. Nothing was enqueued."
        )
    for option in _LATER:
        if options.get(option) is not None:
            raise OptionNotSupported(f"{option}= is not part of this version. Nothing was enqueued.")


def refuse_what_plain_celery_has_not(name: str, options: Mapping[str, Any]) -> None:
    """An option that only the ledger understands would travel in a message's properties and be heeded by nobody."""
    for option in ("biz_id", *_LATER):
        if options.get(option) is not None:
            raise OptionNotSupported(f"{option}= is for jobs, and {name!r} stays plain Celery. Nothing was sent.")


def job_of(name: str, message: task_message, queue: str, priority: Any, options: Mapping[str, Any]) -> NewJob:
    """The job that *message* asks for.

    Raises ``EnqueueError`` and its kin, naming the argument and the remedy; nothing has been written then.
    """
    headers, _, (args, kwargs, embed), _ = message
    fresh = bool(options.get("celeriac_fresh"))
    if not fresh:
        headers["id"] = _text(
            str(headers["id"]) if isinstance(headers["id"], uuid.UUID) else headers["id"], "task_id", 10_000
        )
    task_id, alias = (uuid.UUID(headers["id"]), None) if fresh else ids.to_uuid(headers["id"])
    delay, run_at = _when(headers.get("countdown"), headers["eta"], "countdown")
    expires = headers["expires"]
    if isinstance(expires, numbers.Real):
        lasts, until = _when(expires, None, "expires")
    else:
        lasts, until = None, _moment(expires, "expires")
    hard, soft = headers["timelimit"]
    for what, limit in (("time_limit", hard), ("soft_time_limit", soft)):
        if limit is not None and not (is_seconds(limit) and limit > 0):
            raise EnqueueError(f"{what}={limit!r}: give a number of seconds above 0. Nothing was enqueued.")
    biz_id = options.get("biz_id")
    return NewJob(
        task_id=task_id,
        alias=alias,
        task_type=name,
        queue=_text(queue, "queue", 128),
        payload=codec.encode_payload(args, kwargs, embed, _kept(headers)),
        priority=_priority(priority),
        biz_id=None if biz_id is None else _text(str(biz_id), "biz_id", 255),
        root_id=_other(headers["root_id"], task_id),
        parent_id=_other(headers["parent_id"], None),
        group_id=_other(headers["group"], None),
        delay=max(0.0, delay or 0.0),
        run_at=run_at,
        expires_in=lasts,
        expires_at=until,
        time_limit=None if hard is None else float(hard),
        retry_count=_retries(headers["retries"]),
        fresh=fresh,
    )


def _kept(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Headers that go into the payload: what says something, what a caller or a signal's receiver added, reprs that a caller gave."""
    kept = {key: headers[key] for key in _KEPT if headers.get(key)}
    if headers.get("ignore_result") is False:
        kept["ignore_result"] = False
    for key, value in headers.items():
        if key not in _COLUMNS:
            kept[key] = value
    hard, soft = headers["timelimit"]
    if hard is not None:
        kept["time_limit"] = hard  # for a second life: the Live row, which has it, is gone then
    if soft is not None:
        kept["soft_time_limit"] = soft
    for key in ("argsrepr", "kwargsrepr"):
        if headers.get(key):
            kept[key] = redactor().text(str(headers[key]))
    return kept


def queue_name(amqp: Any, queue: Any, exchange: Any, routing_key: str | None) -> str:
    """The queue that a message is for, as its router or caller said it.

    An exchange with a key goes before a queue, as in Celery (whose router adds the default queue to them). The ledger stands in for the
    exchange: the first declared queue that is bound to it by that key gets the job; where none is, the key is the queue's name.
    """
    if exchange and routing_key:
        return _bound(amqp.queues, str(getattr(exchange, "name", exchange)), routing_key) or str(routing_key)
    if queue is None and exchange is None:
        return str(amqp.app.conf.task_default_queue)
    if queue is None:
        return str(routing_key or getattr(exchange, "name", exchange) or amqp.app.conf.task_default_queue)
    return str(getattr(queue, "name", queue))


def _bound(queues: Mapping[str, Any], exchange: str, routing_key: str) -> str | None:
    """The declared queue that *exchange* delivers *routing_key* to; of several the one of that name, or else the first."""
    found = [
        name
        for name, queue in queues.items()
        for binding in (queue, *(queue.bindings or ()))
        if binding.exchange is not None
        and binding.exchange.name == exchange
        and _delivers(binding.exchange.type, binding.routing_key, routing_key)
    ]
    return routing_key if routing_key in found else next(iter(found), None)


def _delivers(kind: str, pattern: str | None, routing_key: str) -> bool:
    if kind == "fanout":
        return True
    if kind != "topic":
        return pattern == routing_key
    # "*" is one word and "#" any number of them, none included.
    words = re.escape(pattern or "").replace(r"\*", r"[^.]+")
    words = words.replace(r"\#\.", r"(?:.+\.)?").replace(r"\.\#", r"(?:\..+)?").replace(r"\#", ".*")
    return re.fullmatch(words, routing_key) is not None


def _when(seconds: Any, eta: Any, what: str) -> tuple[float | None, datetime | None]:
    """Seconds from now, or a moment. A countdown below zero is due now; both given: the countdown wins, as in Celery."""
    if seconds is None or (not seconds and eta is not None):
        return None, _moment(eta, "eta")
    number = float(seconds) if isinstance(seconds, numbers.Real) and not isinstance(seconds, bool) else math.nan
    if not math.isfinite(number) or abs(number) > _LONGEST:
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
    if not 1970 <= value.year <= 9998:
        raise EnqueueError(f"{what}={value!r}: give a year from 1970 to 9998. Nothing was enqueued.")
    return timezone.make_aware(value) if timezone.is_naive(value) else value


def _text(value: Any, what: str, longest: int) -> str:
    """A text that a column holds."""
    if not isinstance(value, str) or not value or len(value) > longest or storable(value) != value:
        raise EnqueueError(
            f"{what}={value!r:.100}: give a text of at most {longest} characters without NUL and lone surrogates. Nothing was enqueued."
        )
    return value


def _retries(value: Any) -> int:
    """How many retries a call says that it has spent."""
    count = value or 0
    if not isinstance(count, int) or not 0 <= count <= 30_000:
        raise EnqueueError(f"retries={value!r:.100}: give a whole number from 0 to 30000. Nothing was enqueued.")
    return count


def _priority(priority: Any) -> int:
    """0-9, higher runs first; what other brokers allow beyond is cut to that."""
    if priority is None:
        return 0
    if not isinstance(priority, numbers.Real) or math.isnan(priority):
        raise EnqueueError(
            f"priority={priority!r:.100}: give a number from 0 to 9; higher runs first. Nothing was enqueued."
        )
    return max(0, min(9, int(max(-1.0, min(10.0, float(priority))))))


def _other(task_id: str | None, own: uuid.UUID | None) -> uuid.UUID | None:
    """Another job's id as UUID; absent and the job's own are NULL."""
    if not task_id:
        return None
    parsed = ids.to_uuid(task_id)[0]
    return None if parsed == own else parsed
