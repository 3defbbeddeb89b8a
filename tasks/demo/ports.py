"""Ports on the loopback interface."""

import socket

LOOPBACK = "127.0.0.1"


class Reserved:
    """A free port that stays ours until `release()`: bound, so that nobody is given it, and not listening.

    Servers are told their port before they start; a port that is merely looked up can be gone by then.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Let the port go, for the server that is about to take it."""
        self._socket.close()


def free(preferred: int) -> int:
    """Return the first free port from `preferred` upwards (at most 50 on), or any free one."""
    for number in range(preferred, min(preferred + 50, 65536)):
        with socket.socket() as probe:
            # As servers do: a port whose last connections are still fading counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, number))
            except OSError:
                continue
            return number
    reserved = Reserved()
    reserved.release()
    return reserved.number
