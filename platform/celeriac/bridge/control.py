"""Remote control: the ledger first, the broadcast only accelerates."""

from __future__ import annotations

from typing import Any

from celery.app.control import Control
from kombu.utils.functional import maybe_list

from celeriac import conf
from celeriac.ledger import transitions
from celeriac.ledger.rows import Why
from celeriac.models import Job
from celeriac.outcomes import Ref
from celeriac.states import Status

_ARROW = {
    Status.PENDING: "revoked",
    Status.RETRY: "revoked_retry",
    Status.PARKED: "revoked_parked",
    Status.DISPATCHED: "revoked_dispatched",
    Status.RUNNING: "revoked_running",
}


class LedgerControl(Control):
    """``app.control`` whose revoke holds over restarts and with no worker up."""

    def revoke(
        self, task_id: Any, destination: Any = None, terminate: bool = False, signal: str = "SIGTERM", **kwargs: Any
    ) -> Any:
        """Cancel jobs that don't run yet. One that runs goes on, unless *terminate* asks for its process to be killed, as in Celery."""
        unknown = [one for one in maybe_list(task_id) or [] if not revoke(one, running=terminate)]
        if not unknown and not terminate:
            return None
        return super().revoke(
            task_id if terminate else unknown, destination, terminate=terminate, signal=signal, **kwargs
        )


def revoke(task_id: str, actor: str = "caller", reason: str = "revoked", *, running: bool = False) -> bool:
    """Cancel the job of *task_id*. Returns whether the ledger knows it as cancelled now.

    *running*: also if it runs; its fence is raised, so that its outcome is refused. Who asks for that ends the process, too.

    A job that moves while it is looked at (staged, claimed) is looked at again.
    """
    for _ in range(5):
        job = Job.objects.using(conf.alias()).known_as(task_id).with_status().first()
        if job is None or job.outcome is not None:
            return job is not None and job.outcome == Status.CANCELLED
        live = getattr(job, "live", None)
        if live is None or (live.status == Status.RUNNING and not running):
            return False
        if transitions.finish(_ARROW[Status(live.status)], [Ref(job.seq, live.fence)], Why(actor, reason), wait=True):
            return True
    return False
