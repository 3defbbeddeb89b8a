"""How many pool calls are under way, counted at the pool's door.

Celery's own count (``reserved_requests``) starts at zero again after each reconnection, while the pool is still busy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Slots:
    """Counts calls of one pool from their start to their end, however they end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.held = 0
        self.ended = 0

    def count(self, pool: Any) -> None:
        """Count the calls of *pool* from now on."""
        call = pool.apply_async

        def counted(target: Any, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            leave = self._enter()
            for name in ("callback", "error_callback"):
                options[name] = _then(options.get(name), leave)
            try:
                return call(target, args, kwargs, **options)
            except BaseException:
                leave()
                raise

        pool.apply_async = counted

    def wait_for_end(self, seconds: float) -> bool:
        """Whether a call has ended since this was asked last, or ends within *seconds*."""
        ended = self._ended.wait(seconds)
        self._ended.clear()
        return ended

    def _enter(self) -> Callable[[], None]:
        """One more call. Returns what ends it, once."""
        with self._lock:
            self.held += 1
        over = False

        def leave() -> None:
            nonlocal over
            with self._lock:
                if not over:
                    over = True
                    self.held -= 1
                    self.ended += 1
                    self._ended.set()

        return leave


def _then(callback: Callable[..., Any] | None, leave: Callable[[], None]) -> Callable[..., Any]:
    def both(*args: Any, **kwargs: Any) -> Any:
        leave()
        return callback(*args, **kwargs) if callback is not None else None

    return both
