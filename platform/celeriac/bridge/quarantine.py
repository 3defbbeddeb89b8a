"""Messages that are no job: their raw bytes are kept, the worker goes on."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError
from kombu.utils import json

from celeriac import clock, conf, events, text
from celeriac.models import Quarantined
from celeriac.settle.settle import redactor


@dataclass(frozen=True, slots=True)
class Strange:
    """A message as it came, its body bounded."""

    body: bytes
    size: int
    queue: str
    reason: str
    content_type: str = ""
    headers: str = ""


def set_aside(strange: Strange, worker: Any) -> None:
    """Keep *strange* in the ledger; on disk while the database is away. *worker* is the ``Incarnation`` step's state."""
    events.emit("message.quarantined", queue=strange.queue, reason=strange.reason, worker=str(worker.here.id))

    def write() -> None:
        try:
            store(strange, worker.here.id)
        except DatabaseError:
            worker.here.spool.append({"worker": str(worker.here.id), "strange": _plain(strange)})

    worker.undertaker.write(write)


def store(strange: Strange, worker: Any) -> None:
    """Write the row."""
    mask = redactor()
    Quarantined.objects.using(conf.alias()).create(
        at=clock.Now(),
        queue=text.storable(strange.queue, 255),
        reason=text.storable(mask.text(strange.reason), 2000),
        content_type=text.storable(strange.content_type, 255),
        headers=text.storable(mask.text(strange.headers), 8000),
        body=strange.body,
        size=strange.size,
        worker=worker,
    )


def from_entry(plain: dict[str, Any]) -> Strange:
    """What :func:`set_aside` put into the spool."""
    return Strange(**{**plain, "body": base64.b64decode(plain["body"])})


def _plain(strange: Strange) -> dict[str, Any]:
    return {
        "body": base64.b64encode(strange.body).decode("ascii"),
        "size": strange.size,
        "queue": strange.queue,
        "reason": strange.reason,
        "content_type": strange.content_type,
        "headers": strange.headers,
    }


def refuse_garbage(channel: Any, take: Callable[[Strange], None]) -> None:
    """On Redis: look at each raw item before kombu does.

    kombu decodes what it has popped and raises when it isn't its own JSON envelope: by then the item is gone, and the exception ends the
    worker. *take* is called with such an item, and kombu sees an empty answer instead. Called again for each new channel.
    """
    client = channel.client
    parse = client.parse_response

    def checked(connection: Any, command: str, **options: Any) -> Any:
        answer = parse(connection, command, **options)
        if command == "BRPOP" and answer:
            queue, item = answer
            fault = _fault(item)
            if fault is not None:
                name = queue.decode("utf-8", "replace") if isinstance(queue, bytes) else str(queue)
                body = item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogatepass")
                take(Strange(body[: conf.get("QUARANTINE_BYTES")], len(body), name.split("\x06", 1)[0], fault))
                return None
        return answer

    client.parse_response = checked


def _fault(item: Any) -> str | None:
    """Why *item* is no message of kombu's, ``None`` when it is one."""
    try:
        envelope = json.loads(item)
    except (ValueError, TypeError) as exc:
        return f"no kombu envelope: {exc}"
    if not isinstance(envelope, dict):
        return "no kombu envelope: not an object"
    properties = envelope.get("properties")
    if (
        not isinstance(properties, dict)
        or not isinstance(properties.get("delivery_info"), dict)
        or "delivery_tag" not in properties
    ):
        return "no kombu envelope: no properties with delivery_info and delivery_tag"
    if "body" not in envelope or not isinstance(envelope.get("headers", {}), dict):
        return "no kombu envelope: no body, or headers that are no object"
    if properties.get("body_encoding") not in (None, "base64"):
        return "no kombu envelope: unknown body encoding"
    return None
