"""Remote control: the ledger first, the broadcast only accelerates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from celery.app.control import Control
from celery.utils.time import rate
from celery.worker import control as celery_control
from celery.worker.control import control_command
from kombu.utils.functional import maybe_list

from celeriac import conf
from celeriac.bridge import codec
from celeriac.bridge.plain import stays_plain
from celeriac.errors import PayloadUnreadable
from celeriac.guard import controls
from celeriac.ledger import queries, transitions
from celeriac.ledger.rows import Why
from celeriac.models import Job
from celeriac.outcomes import Ref
from celeriac.policy import is_seconds
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

    def revoke_by_stamped_headers(
        self,
        headers: Mapping[str, Any],
        destination: Any = None,
        terminate: bool = False,
        signal: str = "SIGTERM",
        **kwargs: Any,
    ) -> Any:
        """``revoke`` every unfinished job that carries one of these stamps. Tasks outside the ledger are left to the workers' memories.

        What is sent later is not concerned: a stamp may name a customer, and not every job of that customer for ever was meant.
        """
        found = stamped_with(headers)
        if found:
            self.revoke(found, destination, terminate, signal)
        return super().revoke_by_stamped_headers(headers, destination, terminate, signal, **kwargs)

    def purge(self, connection: Any = None) -> int:
        """Cancel every job that waits in one of the app's queues, and discard what plain Celery has left there. Returns how many.

        A job that runs goes on; one that is held or scheduled for later waits, too, and is cancelled.
        """
        served = self.app.amqp.queues.served
        with self.app.connection_or_acquire(connection) as conn:
            # Of plain Celery's queues only: the messages of jobs that are cancelled can claim nothing any more.
            plain = sum(int(conn.default_channel.queue_purge(name) or 0) for name in served)
        return purge(served) + plain

    discard_all = purge

    def rate_limit(self, task_name: str, rate_limit: Any, destination: Any = None, **kwargs: Any) -> Any:
        """Set the rate of a task type for the whole fleet, until it is set again: jobs are held back where they are dispatched.

        *destination* has no meaning: a third party knows nothing of workers. Raises ``ValueError`` for what is no rate. A task that stays
        plain Celery has its limit on each worker, as there.
        """
        if stays_plain(self.app, task_name):
            return super().rate_limit(task_name, rate_limit, destination, **kwargs)
        set_rate(task_name, rate_limit)
        return [{"ok": "new rate limit set"}] if kwargs.get("reply") else None


def purge(queues: Collection[str], actor: str = "caller", reason: str = "purged") -> int:
    """Cancel every job of *queues* that doesn't run, a thousand at a time. Returns how many."""
    done = 0
    while waiting := queries.not_running(queues, 1000):
        moved = 0
        for status, arrow in _ARROW.items():
            refs = [found.ref for found in waiting if found.status == status]
            moved += len(transitions.finish(arrow, refs, Why(actor, reason), wait=True))
        done += moved
        if not moved:
            break  # each of them has moved meanwhile: claimed, most likely
    return done


def stamped_with(headers: Mapping[str, Any]) -> list[str]:
    """Ids of the unfinished jobs that carry one of the stamps that *headers* names; one value, or several, under each name."""
    wanted = {name: maybe_list(values) or [] for name, values in headers.items()}
    found = []
    for task_id, payload in queries.stamped():
        try:
            stamps = codec.decode_payload(payload)["headers"].get("stamps") or {}
        except PayloadUnreadable:
            continue
        if any(stamp in values for name, values in wanted.items() for stamp in maybe_list(stamps.get(name)) or []):
            found.append(task_id)
    return found


def set_rate(task_type: str, limit: Any, actor: str = "control") -> None:
    """Write the rate limit of *task_type*: "10/m", a number of jobs a second, or 0 for none."""
    try:
        rate(limit)
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ValueError(f"{limit!r} is no rate: give 5, '5/s', '100/m' or '2/h'; 0 takes the limit away") from None
    controls.put(f"{controls.RATE}{task_type}", str(limit or 0), actor=actor, reason="control.rate_limit")


@control_command(
    name="rate_limit",
    args=[("task_name", str), ("rate_limit", str)],
    signature="<task_name> <rate_limit (e.g., 5/s | 5/m | 5/h)>",
)
def _rate_limit(state: Any, task_name: str, rate_limit: Any, **kwargs: Any) -> dict[str, str]:
    """``celery control rate_limit``: each worker is asked and writes the same."""
    if stays_plain(state.app, task_name):
        return dict(celery_control.rate_limit(state, task_name, rate_limit, **kwargs))
    try:
        rate(rate_limit)
    except (ValueError, KeyError):
        return {"error": f"Invalid rate limit string: {rate_limit!r}"}
    state.consumer.celeriac.undertaker.write(lambda: set_rate(task_name, rate_limit))
    return {"ok": "new rate limit set"}


@control_command(
    name="time_limit",
    args=[("task_name", str), ("soft", float), ("hard", float)],
    signature="<task_name> <soft_secs> [hard_secs]",
)
def _time_limit(state: Any, task_name: str, hard: Any = None, soft: Any = None, **kwargs: Any) -> dict[str, str]:
    """``control.time_limit``: for what begins on this worker from now on. Limits are read in children, and travel there with each job."""
    if stays_plain(state.app, task_name):
        return dict(celery_control.time_limit(state, task_name=task_name, hard=hard, soft=soft, **kwargs))
    task = state.app.tasks.get(task_name)
    if task is None:
        return {"error": "unknown task"}
    if not all(limit is None or (is_seconds(limit) and limit > 0) for limit in (hard, soft)):
        return {"error": f"soft={soft!r}, hard={hard!r}: give seconds above 0, or nothing"}
    task.limits_at_run_time = (hard, soft)
    return {"ok": "time limits set successfully"}


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
