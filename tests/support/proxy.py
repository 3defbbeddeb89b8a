"""A TCP proxy on the loopback interface that can go dead without a word: no FIN, no RST, as a lost route or a full NAT table does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tasks.demo.ports import LOOPBACK

_CHUNK = 65536


@dataclass(slots=True)
class _Line:
    """One connection through the proxy. Once *dead* it is silent for ever, on the client's side without being closed."""

    client: socket.socket
    server: socket.socket | None
    dead: bool = False


class Proxy:
    """Forwards to one server from `address` (host:port)."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server((LOOPBACK, 0))
        self._lines: list[_Line] = []
        self._lock = threading.Lock()
        self._stalled = False
        self.address = "{}:{}".format(*self._listener.getsockname())
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def open_lines(self) -> int:
        """How many connections are forwarded now."""
        with self._lock:
            return sum(not line.dead for line in self._lines)

    def stall(self) -> None:
        """Forward nothing more, either way, of connections that are and of those to come. Nobody is told."""
        with self._lock:
            self._stalled = True
            for line in self._lines:
                line.dead = True

    def mend(self) -> None:
        """Let new connections through. The server is rid of the old ones; their clients still hear nothing."""
        with self._lock:
            self._stalled = False
            for line in self._lines:
                if line.dead and line.server is not None:
                    _shut(line.server)

    def close(self) -> None:
        """End everything."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for line in self._lines:
                line.dead = True
                for end in (line.client, line.server):
                    if end is not None:
                        _shut(end)
                        end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._stalled:
                    self._lines.append(_Line(client, None, dead=True))
                    continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            line = _Line(client, server)
            with self._lock:
                line.dead = self._stalled
                self._lines.append(line)
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(line, source, sink), name="proxy-pump", daemon=True).start()

    def _pump(self, line: _Line, source: socket.socket, sink: socket.socket) -> None:
        while True:
            try:
                data = source.recv(_CHUNK)
                # Read again after the wait: what comes after the stall goes nowhere, a good-bye included.
                if line.dead:
                    return
                if not data:
                    break
                sink.sendall(data)
            except OSError:
                if line.dead:
                    return
                break
        with self._lock:
            if line in self._lines:
                self._lines.remove(line)
        for end in (source, sink):
            _shut(end)
        # The other pump may still be in a call on these two; their numbers are freed with the last reference.


@contextmanager
def proxy(target: tuple[str, int]) -> Iterator[Proxy]:
    """Give a proxy in front of *target* (host, port) that is gone when the block ends."""
    made = Proxy(target)
    try:
        yield made
    finally:
        made.close()


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
