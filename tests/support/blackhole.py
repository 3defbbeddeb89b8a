"""A host that accepts connections and never answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.demo.ports import LOOPBACK


@contextmanager
def black_hole() -> Iterator[str]:
    """Give the address (host:port) of a listener that swallows whatever it is told."""
    kept: list[socket.socket] = []
    with socket.create_server((LOOPBACK, 0)) as listener:

        def swallow() -> None:
            while True:
                try:
                    kept.append(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=swallow, daemon=True).start()
        host, port = listener.getsockname()
        try:
            yield f"{host}:{port}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for each in kept:
                each.close()
