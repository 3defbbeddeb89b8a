"""The demo's third parties: ``python -m tasks.demo.simulator --port P`` (0: a free port), on loopback only.

Prints ``ready http://127.0.0.1:PORT`` when it listens. Services ``sms``, ``logistics`` and ``partner``
(``offers.py``); ``POST /control/<service>`` changes how one behaves (``behaviour.py``),
``GET /calls/<service>`` reports what it was asked (``callbook.py``). Ends on SIGTERM, on SIGINT, or when it
was told to die for good.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from tasks.demo.behaviour import BadBehaviour, Behaviour, Mode
from tasks.demo.callbook import CallBook
from tasks.demo.offers import OFFERS, SERVICES, Call, Declined

HOST = "127.0.0.1"


class Simulator:
    """All third parties in one process: behaviours, call books and the listening socket.

    A dead simulator refuses connections and has closed the open ones; a call that hangs is let go only then.
    The port stays the same when it comes back.
    """

    def __init__(self, port: int = 0) -> None:
        self.behaviours = {service: Behaviour() for service in SERVICES}
        self.books = {service: CallBook() for service in SERVICES}
        self._lock = threading.Lock()
        self._listener = _Listener((HOST, port), self)
        self.port: int = self._listener.server_address[1]
        self._back_in = 0.0
        self._gone = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}"

    def serve(self) -> None:
        """Serve until :meth:`die` is called for good; returns then."""
        while not self._gone.is_set():
            self._listener.serve_forever(poll_interval=0.05)
            self._listener.hang_up()
            # An event, not a sleep: SIGTERM may come while it is away.
            if not self._gone.wait(self._back_in):
                self._listener = _Listener((HOST, self.port), self)

    def die(self, back_in: float = 0.0) -> None:
        """Stop listening and cut every connection; listen again after *back_in* seconds, 0: never."""
        self._back_in = back_in
        if not back_in:
            self._gone.set()
        # shutdown() waits for the loop to end, and the caller may be a handler or a signal handler on the
        # loop's thread.
        threading.Thread(target=self._listener.shutdown, daemon=True).start()

    def behave(self, service: str, behaviour: Behaviour) -> None:
        """Make *service* behave so from now on; to die is something they all do."""
        if behaviour.mode is Mode.DIE:
            return self.die(behaviour.delay)
        with self._lock:
            self.behaviours[service] = behaviour

    def verdict(self, service: str) -> tuple[Mode, Behaviour]:
        """What happens to the call that *service* has just received, and the behaviour that decided it."""
        with self._lock:
            behaviour = self.behaviours[service]
            return behaviour.next(time.monotonic()), behaviour


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], simulator: Simulator) -> None:
        self.simulator = simulator
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away is no error here; the rest is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        """Stop listening, let hanging calls go, cut what is open."""
        self.closing.set()
        self.socket.close()
        with self._open_lock:
            connections = list(self._open)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its caller has closed it already


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave in one write: two small segments would wait for the caller's delayed
    # acknowledgement, 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Listener

    def do_GET(self) -> None:
        self._route()

    def do_POST(self) -> None:
        self._route()

    def log_message(self, format: str, *args: Any) -> None:
        """The call book is the record; a line a call on stderr would drown the demo."""

    def _route(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self._body()
        if body is None:
            return self._answer(400, {"error": "the body isn't a JSON object"})
        head, _, last = path.rpartition("/")
        if head == "/control" and self.command == "POST" and last in SERVICES:
            return self._control(last, body)
        if head == "/calls" and self.command == "GET" and last in SERVICES:
            return self._answer(200, {"service": last, **self.server.simulator.books[last].report()})
        offer = path if self.command == "POST" else head
        if (self.command, offer) in OFFERS:
            return self._serve(offer, path, body)
        return self._answer(404, {"error": f"no {self.command} {path}"})

    def _control(self, service: str, request: dict[str, Any]) -> None:
        try:
            behaviour = Behaviour.parse(request)
        except BadBehaviour as error:
            return self._answer(400, {"error": str(error)})
        if behaviour.mode is Mode.DIE:
            # Answered first: dying cuts this connection too.
            self._answer(200, {"service": service, "mode": behaviour.mode})
            self.wfile.flush()
            return self.server.simulator.behave(service, behaviour)
        self.server.simulator.behave(service, behaviour)
        return self._answer(200, {"service": service, "mode": behaviour.mode})

    def _serve(self, offer: str, path: str, body: dict[str, Any]) -> None:
        service, action = OFFERS[self.command, offer]
        key = self.headers.get("Idempotency-Key")
        request_id = key or self.headers.get("X-Request-Id") or str(uuid4())
        book = self.server.simulator.books[service]
        call = Call(path, body, request_id, book.note(request_id))
        mode, behaviour = self.server.simulator.verdict(service)
        if mode is Mode.HANG:
            self.server.closing.wait()
            self.close_connection = True
            return None
        if mode is Mode.SLOW:
            self.server.closing.wait(behaviour.delay)
        if mode is Mode.FAIL:
            return self._answer(500, {"error": "told to fail"})
        if mode is Mode.LIMIT:
            return self._answer(429, {"error": "too many calls"}, {"Retry-After": f"{behaviour.retry_after:g}"})
        try:
            answer = book.act(request_id, key, lambda: action(call))
        except Declined as declined:
            return self._answer(declined.status, {"error": declined.text})
        if mode is Mode.DROP:
            self.close_connection = True
            return None
        return self._answer(200, answer)

    def _body(self) -> dict[str, Any] | None:
        try:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(raw) if raw else {}
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    def _answer(self, status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m tasks.demo.simulator", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="port on loopback; 0 takes a free one")
    simulator = Simulator(parser.parse_args().port)

    def stop(signum: int, frame: FrameType | None) -> None:
        # From a thread: this handler may have interrupted serve() while it held the very lock that die() needs.
        threading.Thread(target=simulator.die, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"ready {simulator.url}", flush=True)
    simulator.serve()


if __name__ == "__main__":
    main()
