"""What is addressed to a worker goes before what anybody may take: a seam into kombu's Redis transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Consumer, Producer, Queue

from celeriac.bridge.bootsteps import read_first
from tests.support.product import Product

COMMON, OWN = (
    Queue("read-first-common", routing_key="read-first-common"),
    Queue("read-first-own", routing_key="read-first-own"),
)


@pytest.fixture
def channel(product: Product) -> Iterator[Any]:
    """A channel of a real Redis with six messages for anybody, and then one for us."""
    with Connection(product.services.redis_url) as connection:
        channel = connection.default_channel
        producer = Producer(channel)
        for number in range(6):
            producer.publish(number, routing_key=COMMON.routing_key, declare=[COMMON(channel)])
        producer.publish("ours", routing_key=OWN.routing_key, declare=[OWN(channel)])
        yield channel
        for queue in (COMMON, OWN):
            queue(channel).delete()


def _read(channel: Any) -> list[Any]:
    """Everything, in the order of its coming."""
    came: list[Any] = []

    def take(body: Any, message: Any) -> None:
        came.append(body)
        message.ack()

    with Consumer(channel, queues=[COMMON, OWN], callbacks=[take]):
        while len(came) < 7:
            try:
                channel.connection.client.drain_events(timeout=10)
            except TimeoutError:
                raise AssertionError(f"only {came} came") from None
    return came


def test_kombu_reads_its_queues_in_turns(channel: Any) -> None:
    """What we change; when this fails, kombu has moved."""
    assert _read(channel)[0] == 0


def test_the_own_queue_is_read_first(channel: Any) -> None:
    read_first(channel, OWN.name)

    assert _read(channel) == ["ours", *range(6)]
