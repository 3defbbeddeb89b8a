"""Does this worker hear? It writes to its own queue and waits for what it wrote to come in by the way that jobs come.

A connection can be up for the operating system and dead in fact (a half-open socket, a lost subscription, a consumer that was cancelled on the
other side): the worker answers pings and consumes nothing. Nobody else can tell an idle worker from a deaf one. While slots are free a probe
is on its way at all times; without an echo for ``DEAF_AFTER`` the connection is made anew, and after as long again the worker starts anew.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from celery.utils.log import get_logger
from kombu import Producer, Queue

from celeriac import events
from celeriac.bridge.messages import own_queue
from celeriac.bridge.publisher import delete_own_queue
from celeriac.bridge.ringing import impatient

logger = get_logger(__name__)

HEADER: Final = "celeriac-probe"
PROBE_EVERY: Final = 5.0
DEAF_AFTER: Final = 9.0
LOOK_EVERY: Final = 0.5
TURN_EVERY: Final = 0.5
WEDGED_AFTER: Final = 15.0
#: Our own thread was not scheduled for so long: the whole process rested, and no reading means anything.
RESTED: Final = 2.0


class Hearing:
    """Watches over one worker's ears, its main loop and its pool. *may_take* says whether it would take a message now.

    *runs*: whether any job runs here. *busy_loop*: whether a running job keeps the main loop from turning (the solo pool). *waits_for_children*: whether a message that was taken
    waits although the pool has a free place. *start_anew* is the last resort.
    """

    def __init__(
        self,
        app: Any,
        worker: uuid.UUID,
        *,
        may_take: Callable[[], bool],
        busy_loop: Callable[[], bool],
        runs: Callable[[], bool],
        waits_for_children: Callable[[], bool],
        start_anew: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._app = app
        self._worker = worker
        self._may_take = may_take
        self._busy_loop = busy_loop
        self._runs = runs
        self._reachable = False
        self._waits_for_children = waits_for_children
        self._waited_since: float | None = None
        self._start_anew = start_anew
        self._changed = changed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="celeriac-hearing", daemon=True)
        self._consumer: Any = None
        self._producer: Producer | None = None
        self._nonce = uuid.uuid4().hex
        self._ever = False
        self._sent = 0.0
        self._silent_since: float | None = None
        self._turned = time.monotonic()
        self._tried = False
        self.deaf = False
        self.wedged = False

    # ---- from the main loop --------------------------------------------------------------------------------------------

    def queue(self) -> Queue:
        """The incarnation's own queue."""
        return Queue(own_queue(self._worker), routing_key=own_queue(self._worker), durable=False, auto_delete=True)

    def ready(self, consumer: Any) -> None:
        """*consumer* consumes from now on."""
        self._consumer, self._ever = consumer, True
        self._silent_since = None
        self.turn()
        self._changed()

    def lost(self) -> None:
        """The connection is gone; Celery makes it anew."""
        self._consumer = None
        self._changed()

    def heard(self, message: Any) -> bool:
        """Whether *message* is a probe. It is of no further use then."""
        if not isinstance(message.headers, dict) or HEADER not in message.headers:
            return False
        if message.headers[HEADER] == self._nonce:
            self._silent_since = None
            self._tried = False
            if self.deaf:
                self.deaf = False
                self._changed()
        return True

    def turn(self) -> None:
        """The main loop has made a turn."""
        self._turned = time.monotonic()

    @property
    def turns(self) -> bool:
        """Whether the main loop goes round."""
        return time.monotonic() - self._turned < 2 * TURN_EVERY

    # ---- what the beat says --------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """ "alive", or why it isn't quite."""
        if self.wedged:
            return "wedged"
        if self._consumer is None:
            return "deaf" if self._ever else "starting"
        return "deaf" if self.deaf else "alive"

    # ---- the thread ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen to ourselves."""
        self._thread.start()

    def stop(self) -> None:
        """End, soon, and leave nothing in the broker."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        """Return when that is done, at the latest after *seconds*."""
        if threading.current_thread() is self._thread:
            self._leave()
        elif self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        before = time.monotonic()
        while not self._stop.wait(LOOK_EVERY):
            now = time.monotonic()
            if now - before > LOOK_EVERY + RESTED:
                self._turned = now
                self._silent_since = self._waited_since = None
            before = now
            self._look(now)
        self._leave()

    def _look(self, now: float) -> None:
        consumer = self._consumer
        still = now - self._turned if consumer is not None and not self._busy_loop() else 0.0
        if not self._waits_for_children():
            self._waited_since = None
        elif self._waited_since is None:
            self._waited_since = now
        waited = now - self._waited_since if self._waited_since is not None else 0.0
        wedged = max(still, waited) >= WEDGED_AFTER
        if wedged is not self.wedged:
            self.wedged = wedged
            self._changed()
            if wedged:
                why = (
                    f"its main loop has not made a turn for {still:.0f} s"
                    if still >= WEDGED_AFTER
                    else f"no child of its pool has been ready for {waited:.0f} s (does worker_process_init take longer than "
                    "worker_proc_alive_timeout?)"
                )
                events.emit("worker.wedged", worker=str(self._worker), reason=why)
        # What runs settles without the main loop: it is never interrupted for our ears' sake.
        if still >= 2 * WEDGED_AFTER and not self._runs():
            self._start_anew(f"its main loop has not made a turn for {still:.0f} s")
            return
        if consumer is None or not self._may_take():
            self._silent_since = None  # not listening, and rightly so
            self._sent = 0.0
            return
        if now - self._sent >= PROBE_EVERY and not self._probe(now):
            return
        silent = now - self._silent_since if self._silent_since is not None else 0.0
        if silent < DEAF_AFTER:
            return
        if not self.deaf:
            self.deaf = True
            self._changed()
            events.emit("worker.deaf", worker=str(self._worker), reason=f"no echo of its own probe for {silent:.0f} s")
        if not self._reachable:
            return  # our own connection gets no answer either: it is the broker, and a new life would hear as little
        if not self._tried:
            self._tried = True
            self._silent_since = now
            _reconnect(consumer)
        elif not self._runs():
            self._start_anew(f"connected, but it consumes nothing, and a new connection did not help ({silent:.0f} s)")

    def _probe(self, now: float) -> bool:
        """Whether the broker took a probe. Lost probes are replaced; the silence counts from the first one that wasn't heard."""
        self._sent = now
        try:
            if self._producer is None:
                connection = impatient(self._app)
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=1)
                self._producer = Producer(connection.channel(), auto_declare=False)
            self._producer.publish(
                b"",
                exchange="",
                routing_key=own_queue(self._worker),
                headers={HEADER: self._nonce},
                content_type="application/data",
                content_encoding="binary",
                delivery_mode=1,
                retry=False,
            )
        except Exception as exc:  # any broker error: it is away for us too, which the consumer may not have noticed
            logger.debug("The broker doesn't take a probe: %r", exc)
            self._drop()
            self._reachable = False
            if self._silent_since is None:
                self._silent_since = now
            elif now - self._silent_since >= DEAF_AFTER and not self.deaf:
                self.deaf = True
                self._changed()
                events.emit("worker.deaf", worker=str(self._worker), reason=f"the broker is out of reach: {exc}")
            return False
        if self._silent_since is None or not self._reachable:
            self._silent_since = now  # from here on: before, there was nobody to hear
        self._reachable = True
        return True

    def _leave(self) -> None:
        """The last probes are in our queue, and no broker knows that nobody will come for them."""
        if self._producer is not None:
            try:
                delete_own_queue(self._producer.channel, self._worker)
            except Exception as exc:  # any broker error: a key that nobody reads is left behind
                logger.debug("Our own queue is left in the broker: %r", exc)
        self._drop()

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.channel.connection.client.collect()
            except Exception as exc:  # it is broken already; what matters is that we hold it no longer
                logger.debug("Closing the probe's connection: %r", exc)


def _reconnect(consumer: Any) -> None:
    """Have Celery believe that the connection is lost, which it is."""

    def lost() -> None:
        raise ConnectionResetError("this worker hears nothing over its connection to the broker")

    logger.error("This worker consumes nothing although it is connected: its connection is made anew")
    if consumer.hub is not None:
        consumer.hub.call_soon(lost)
    else:
        consumer.connection.collect()
