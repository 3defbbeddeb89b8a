"""Our class in every task: mixed in at registration, also under a project's own ``base=``.

``__trace__`` is what Celery's workers call for a task; here it is a data descriptor whose setter wraps the tracer. Not
``before_start``: a custom base, a missing ``super()``, eager mode and ``task_prerun`` all get around that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.contrib.django.task import DjangoTask

from celeriac.bridge.plain import stays_plain
from celeriac.policy import Policy
from celeriac.run.current import current_of


class LedgerTask(DjangoTask):
    """What the ledger needs of a task class."""

    abstract = True
    Strategy = "celeriac.bridge.strategy:default"
    store_errors_even_if_ignored = True

    #: The task's policy; ``None`` keeps Celery's meaning: one attempt.
    policy: Policy | None = None

    #: ``False``: plain Celery, outside the ledger; ``True``: a job, whatever the setting says; ``None``: as ``CELERIAC["PLAIN_TASKS"]`` says.
    ledger: bool | None = None

    #: Hard and soft limit that ``control.time_limit`` has set on this worker.
    limits_at_run_time: tuple[float | None, float | None] | None = None

    @property
    def __trace__(self) -> Callable[..., Any] | None:
        return self.__dict__.get("_celeriac_trace")

    @__trace__.setter
    def __trace__(self, tracer: Callable[..., Any] | None) -> None:
        from celeriac.bridge.guarded import guard

        self.__dict__["_celeriac_trace"] = None if tracer is None else guard(self, tracer)

    @property
    def fence(self) -> int | None:
        """The fencing token of the run that is under way: pass it to what must refuse writes of an older run.

        ``None`` outside a job of the ledger.
        """
        run = current_of(self.request.id) if self.request.id else None
        return None if run is None else run.claimed.ref.fence

    def on_replace(self, sig: Any) -> Any:
        """As in Celery; what takes the place is written with the settle of this run, in one transaction, or not at all."""
        run = None if self.request.is_eager or not self.request.id else current_of(self.request.id)
        if run is None:
            return super().on_replace(sig)
        from celeriac.bridge.door import holding

        with holding():
            try:
                return super().on_replace(sig)
            finally:
                # By a plain task it was a send under this job's own id: a wish.
                run.replaced = run.wish is None and bool(run.held)

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> Any:
        """``delay``: the row is written inside the transaction and committed with it. Returns the result at once.

        Celery's own waits for the commit: a process that dies right after it has lost the job, and its caller gets no id. A task that stays
        plain Celery is sent after the commit, as there.
        """
        if stays_plain(self.app, self.name):
            return super().delay_on_commit(*args, **kwargs)
        return self.delay(*args, **kwargs)

    def apply_async_on_commit(self, *args: Any, **kwargs: Any) -> Any:
        """``apply_async``, for the same reason."""
        if stays_plain(self.app, self.name):
            return super().apply_async_on_commit(*args, **kwargs)
        return self.apply_async(*args, **kwargs)


_MIXED: dict[Any, Any] = {}


def mixed(base: Any) -> Any:
    """*base* with :class:`LedgerTask` in front, the same class each time; *base* itself where it is there already."""
    if issubclass(base, LedgerTask):
        return base
    if base not in _MIXED:
        body = {"abstract": True, "__module__": base.__module__, "__doc__": base.__doc__}
        _MIXED[base] = type(base.__name__, (LedgerTask, base), body)
    return _MIXED[base]
