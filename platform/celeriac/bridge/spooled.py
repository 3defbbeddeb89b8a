"""Replays the spool: what the database could not take is written, in order, when it answers again."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connections

from celeriac import conf
from celeriac.bridge import quarantine
from celeriac.fleet.here import Here
from celeriac.fleet.sessions import keep_from_children
from celeriac.ledger import transitions
from celeriac.settle.settle import redactor, told
from celeriac.settle.spool import Spool, waiting
from celeriac.settle.wire import from_entry

logger = logging.getLogger("celeriac")


class Replay:
    """A thread of the worker's main process, with its own database session."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, database_away: Callable[[], bool]) -> None:
        """Begin to look, once a second; nothing is tried while *database_away* says so."""
        self._thread = threading.Thread(target=self._run, args=(database_away,), name="celeriac-spool", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """A last look, and end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)

    def _run(self, database_away: Callable[[], bool]) -> None:
        session = connections[conf.alias()]
        keep_from_children(lambda: session)
        while True:
            stopping = self._stop.wait(0.5)
            if not database_away():
                try:
                    self._all()
                except (DatabaseError, InterfaceError) as exc:
                    logger.warning("The database is away, outcomes wait in the spool: %s", exc)
                    connections[conf.alias()].close()
                except OSError:
                    logger.exception("The spool can't be read")
            if stopping:
                connections.close_all()
                return

    def _all(self) -> None:
        for path in waiting(self._here.spool.folder):
            # Others' too: whoever waits until their incarnation is given up finds every outcome of it refused.
            count = Spool(path.parent, path.stem).replay(take, wait=path == self._here.spool.path)
            if count:
                logger.info("Replayed %d outcome(s) from the spool %s", count, path.name)


def take(entry: dict[str, Any]) -> None:
    """Write one line of a spool. Its fence decides whether it still counts."""
    worker = uuid.UUID(entry["worker"])
    if "strange" in entry:
        quarantine.store(quarantine.from_entry(entry["strange"]), worker)
        return
    outcome = from_entry(entry["outcome"])
    try:
        settled = transitions.settle([outcome], worker, redactor(), elsewhere=True)
    except OperationalError:
        raise
    except DatabaseError:
        # This line can never be written; it must not hold back the ones behind it. It stays in the log in full, redacted.
        logger.exception("A spooled outcome of %s can't be written", outcome.task_id)
        return
    told([outcome], settled, worker)
