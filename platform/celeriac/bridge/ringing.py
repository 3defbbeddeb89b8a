"""The bell's wire: a fanout message that nobody needs to get."""

from __future__ import annotations

from typing import Any

from kombu import Connection, Exchange, Producer

EXCHANGE = Exchange("celeriac.bell", type="fanout", durable=False, delivery_mode=1)


def impatient(app: Any) -> Connection:
    """A connection of one's own that gives up in a second: a black-holed broker must cost nobody more."""
    options = {**app.conf.broker_transport_options, "socket_timeout": 1.0, "socket_connect_timeout": 1.0, "retry_on_timeout": False,
               "connect_timeout": 1.0, "max_retries": 0}  # fmt: skip
    return app.connection_for_write(transport_options=options, connect_timeout=1.0)


class Ringer:
    """Publishes rings from the bell's thread over one connection."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._producer: Producer | None = None

    def publish(self) -> None:
        """One ring. Raises when the broker is away."""
        if self._producer is None:
            connection = impatient(self._app)
            self._producer = Producer(connection.channel(), exchange=EXCHANGE, auto_declare=False)
            self._producer.maybe_declare(EXCHANGE)
        self._producer.publish(b"", content_type="application/x-celeriac", content_encoding="binary", retry=False)

    def reset(self) -> None:
        """Drop the connection after a failure."""
        producer, self._producer = self._producer, None
        if producer is not None and producer.channel is not None:
            producer.channel.connection.client.collect()
