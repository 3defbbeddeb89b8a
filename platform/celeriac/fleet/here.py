"""This process tree's incarnation: set in the worker's main process before it forks, inherited by its children."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass

from celeriac import conf
from celeriac.fleet.page import Page
from celeriac.settle.spool import Spool


@dataclass(slots=True)
class Here:
    """Who we are: the incarnation, the page shared with the children, the spool."""

    id: uuid.UUID
    hostname: str
    page: Page
    spool: Spool
    main_pid: int


_here: Here | None = None


def begin(hostname: str) -> Here:
    """A new incarnation of this process tree."""
    global _here
    incarnation = uuid.uuid4()
    _here = Here(incarnation, hostname, Page(), Spool(conf.spool_dir(), str(incarnation)), os.getpid())
    return _here


def current() -> Here | None:
    """The incarnation of this process, ``None`` outside a worker."""
    return _here


def here() -> Here:
    """The incarnation of this process. Outside a worker that is a programming error, and raises ``RuntimeError``."""
    if _here is None:
        raise RuntimeError("No incarnation has begun here: jobs run in a worker that `celery worker` has started.")
    return _here
