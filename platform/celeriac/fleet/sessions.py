"""Database sessions of a worker's main process that its children must not keep.

A child inherits every descriptor. One that stays open keeps the session, and with it the witness lock, after the main process has died.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

_OWNED: Final[list[Callable[[], BaseDatabaseWrapper | None]]] = []


def keep_from_children(session: Callable[[], BaseDatabaseWrapper | None]) -> None:
    """Remember that what *session* returns at the time of a fork is the main process's alone."""
    _OWNED.append(session)


def let_go() -> None:
    """In a child, first thing: hold none of those sessions open, without a word to the server.

    The descriptor is replaced and not closed: whatever libpq may still write to that number must reach neither the server (a good-bye would
    end the parent's session) nor a file that has got the number by then.
    """
    for owned in _OWNED:
        session = owned()
        connection = None if session is None else session.connection
        if connection is None or connection.closed:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, connection.fileno())
        os.close(null)
