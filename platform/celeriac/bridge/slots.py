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
        self._calls: set[Any] = set()

    def count(self, pool: Any) -> None:
        """Count the calls of *pool* from now on."""
        call = pool.apply_async

        def counted(target: Any, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            leave, has_begun = self._enter()
            for name in ("callback", "error_callback"):
                options[name] = _then(options.get(name), leave)
            try:
                begun = call(target, args, kwargs, **options)
            except BaseException:
                leave()
                raise
            has_begun(begun)
            return begun

        pool.apply_async = counted

    def wait_for_end(self, seconds: float) -> bool:
        """Whether a call has ended since this was asked last, or ends within *seconds*."""
        ended = self._ended.wait(seconds)
        self._ended.clear()
        return ended

    def calls(self) -> list[Any]:
        """What the pool returned for each call that is under way."""
        with self._lock:
            return list(self._calls)

    def _enter(self) -> tuple[Callable[[], None], Callable[[Any], None]]:
        """One more call. Returns what ends it, once, and what takes the pool's result for it: that may come after its end."""
        with self._lock:
            self.held += 1
        over = False
        results: list[Any] = []

        def leave() -> None:
            nonlocal over
            with self._lock:
                if not over:
                    over = True
                    self.held -= 1
                    self.ended += 1
                    self._calls.difference_update(results)
                    self._ended.set()

        def has_begun(result: Any) -> None:
            with self._lock:
                if not over and result is not None:
                    results.append(result)
                    self._calls.add(result)

        return leave, has_begun


def _then(callback: Callable[..., Any] | None, leave: Callable[[], None]) -> Callable[..., Any]:
    def both(*args: Any, **kwargs: Any) -> Any:
        leave()
        return callback(*args, **kwargs) if callback is not None else None

    return both
