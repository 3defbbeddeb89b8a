"""The broker as dispatch sees it: kombu, with small time budgets."""

from __future__ import annotations

import uuid
from typing import Any

from kombu import Producer, Queue

from celeriac.bridge.messages import BODY, CONTENT_TYPE, broker_queue, headers_for, own_queue
from celeriac.bridge.ringing import impatient
from celeriac.dispatch.dispatch import BrokerAway
from celeriac.ledger.queries import Place
from celeriac.ledger.rows import Staged
from celeriac.settle.settle import redactor

SENTINEL = "celeriac.sentinel"


class KombuPublisher:
    """Publishes over one connection of its own; made anew after every failure."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._producer: Producer | None = None
        self._declared: set[str] = set()
        self._nonce: str | None = None

    def publish(self, job: Staged, term: int) -> None:
        """One message with ids, a fence and redacted reprs."""
        name = own_queue(job.worker) if job.worker else broker_queue(job.queue)
        producer = self._connected()
        try:
            if name not in self._declared and job.worker is None:  # a worker declares its own
                Queue(name, routing_key=name)(producer.channel).declare()
                self._declared.add(name)
            producer.publish(
                BODY,
                exchange="",
                routing_key=name,
                content_type=CONTENT_TYPE,
                content_encoding="binary",
                headers=headers_for(job, term, redactor()),
                delivery_mode=2,
                correlation_id=job.public_id,
                retry=False,
            )
        except Exception as exc:
            raise self._failed(exc) from exc

    def depth(self, place: Place) -> int | None:
        """Ready messages of ours that wait at *place*."""
        name = own_queue(place.worker) if place.worker else broker_queue(place.queue)
        channel = self._connected().channel
        try:
            if hasattr(channel, "_size"):
                return int(channel._size(name))
            return int(channel.queue_declare(name, passive=True).message_count)
        except Exception as exc:
            raise self._failed(exc) from exc

    def forget(self, worker: uuid.UUID) -> None:
        """Delete the own queue of a worker that has ended: nobody will read what is left in it."""
        channel = self._connected().channel
        try:
            delete_own_queue(channel, worker)
        except Exception as exc:
            raise self._failed(exc) from exc

    def plant_sentinel(self) -> None:
        """A key on Redis. Other brokers keep their queues over a restart, and shortness tells the rest."""
        client = self._redis()
        if client is None:
            return
        nonce = uuid.uuid4().hex
        try:
            client.set(self._key(), nonce)
        except Exception as exc:
            raise self._failed(exc) from exc
        self._nonce = nonce

    def sentinel_stands(self) -> bool:
        """Whether the key still holds what we put there; also the probe of a broker that was away."""
        client = self._redis()
        if client is None:
            self._connected()
            return True
        try:
            found = client.get(self._key())
        except Exception as exc:
            raise self._failed(exc) from exc
        return self._nonce is not None and found == self._nonce.encode()

    def close(self) -> None:
        """Give the connection up."""
        producer, self._producer = self._producer, None
        self._declared.clear()
        if producer is not None:
            producer.channel.connection.client.collect()

    def _key(self) -> str:
        prefix = self._app.conf.broker_transport_options.get("global_keyprefix", "")
        return f"{prefix}{SENTINEL}"

    def _redis(self) -> Any:
        channel = self._connected().channel
        return channel.client if channel.connection.driver_type == "redis" else None

    def _connected(self) -> Producer:
        if self._producer is None:
            try:
                connection = impatient(self._app)
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=1)
                self._producer = Producer(connection.channel(), auto_declare=False)
            except Exception as exc:
                raise self._failed(exc) from exc
        return self._producer

    def _failed(self, exc: Exception) -> BrokerAway:
        if isinstance(exc, BrokerAway):
            return exc
        producer, self._producer = self._producer, None
        self._declared.clear()
        if producer is not None:
            try:
                producer.channel.connection.client.collect()
            except Exception as closing:  # the connection is broken already; what matters is that we hold it no longer
                exc.add_note(f"closing the broken connection raised {closing!r}")
        return BrokerAway(f"{type(exc).__name__}: {exc}")


def delete_own_queue(channel: Any, worker: uuid.UUID) -> None:
    """Nobody reads the queue of *worker* any more. Raises what the broker's client raises."""
    name = own_queue(worker)
    if hasattr(channel, "_q_for_pri"):  # Redis: kombu deletes only what it knows a binding of
        channel.client.delete(*(channel._q_for_pri(name, step) for step in channel.priority_steps))
    else:
        channel.queue_delete(name)
