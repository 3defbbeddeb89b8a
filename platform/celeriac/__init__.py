"""Celeriac: a durable job platform on Celery and Django.

    from celeriac import Celery

instead of ``from celery import Celery`` is all that a project has to change. Names are loaded when they are first used:
importing this package needs neither a configured Django nor an import of Celery (a model imported here would raise
``AppRegistryNotReady`` in every settings module that wants a ``Policy``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celeriac.bridge.app import Celery as Celery
    from celeriac.errors import GiveUp as GiveUp
    from celeriac.errors import JobError as JobError
    from celeriac.errors import RetryLater as RetryLater
    from celeriac.errors import ToDeadLetter as ToDeadLetter
    from celeriac.models import Job as Job
    from celeriac.policy import Backoff as Backoff
    from celeriac.policy import Policy as Policy

__version__ = "0.1.0"

_HOME = {
    "Celery": "celeriac.bridge.app",
    "Policy": "celeriac.policy",
    "Backoff": "celeriac.policy",
    "JobError": "celeriac.errors",
    "RetryLater": "celeriac.errors",
    "GiveUp": "celeriac.errors",
    "ToDeadLetter": "celeriac.errors",
    "Job": "celeriac.models",
}

__all__ = ["Backoff", "Celery", "GiveUp", "Job", "JobError", "Policy", "RetryLater", "ToDeadLetter", "__version__"]


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'celeriac' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
