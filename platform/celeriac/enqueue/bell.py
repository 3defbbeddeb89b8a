"""The bell: tells the scheduler after a commit that there is work. Best effort, never in the caller's way.

``ring()`` sets an event and returns. A daemon thread of this process publishes, at most once in 10 ms; a ring that comes while
one is on its way is dropped, since the scheduler will look anyway; after a failure the bell is silent for 5 s. A lost ring costs the
scheduler's polling interval (``POLL_MAX``) and nothing else. After a fork the child's first ring starts a thread of its own.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger("celeriac")

AT_MOST_EVERY: Final = 0.010
SILENT_AFTER_FAILURE: Final = 5.0


class Bell:
    """Rings through *publish*, which may block and may raise; *reset* (optional) drops its connection after a failure."""

    def __init__(self, publish: Callable[[], None], reset: Callable[[], None] | None = None) -> None:
        self._publish = publish
        self._reset = reset
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._pid: int | None = None

    def ring(self) -> None:
        """Wake the scheduler soon. Returns at once."""
        if self._pid != os.getpid():
            self._start()
        self._wanted.set()

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            # A lock or event inherited over a fork may be held by a thread that doesn't exist here.
            self._wanted = threading.Event()
            thread = threading.Thread(target=self._run, args=(self._wanted,), name="celeriac-bell", daemon=True)
            thread.start()
            self._pid = os.getpid()

    def _run(self, wanted: threading.Event) -> None:
        while True:
            wanted.wait()
            wanted.clear()
            try:
                self._publish()
            except Exception as exc:  # any broker error: the ring is an acceleration, the ledger has the job
                logger.debug("The bell is silent for %s s: %r", SILENT_AFTER_FAILURE, exc)
                if self._reset is not None:
                    self._reset()
                time.sleep(SILENT_AFTER_FAILURE)
            else:
                time.sleep(AT_MOST_EVERY)
