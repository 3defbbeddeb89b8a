"""Tasks that stay plain Celery, outside the ledger: ``ledger=False``, or a name that ``CELERIAC["PLAIN_TASKS"]`` has.

Their messages carry everything, go to Celery's own queues and wait in the broker; workers run them as Celery does, with its acknowledgements,
limits and results. What the ledger already holds of such a task runs to its end as the job it was accepted as.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from celeriac import conf


def stays_plain(app: Any, name: str) -> bool:
    """Whether task *name* is left to plain Celery. What the task says (``ledger=``) goes before the setting.

    A caller that doesn't know the task has the setting only.
    """
    said = getattr(app._tasks.get(name), "ledger", None)
    if said is not None:
        return not said
    return any(fnmatchcase(name, pattern) for pattern in conf.get("PLAIN_TASKS"))
