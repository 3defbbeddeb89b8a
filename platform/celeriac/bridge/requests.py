"""A job as the worker's main process sees it, from the message to the pool call's end."""

from __future__ import annotations

from typing import Any

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.app.trace import fast_trace_task, trace_task_ret
from celery.exceptions import Ignore, Reject, Retry
from celery.utils.saferepr import saferepr
from celery.worker.request import Request
from celery.worker.state import task_ready

from celeriac.bridge.policies import LIMITS
from celeriac.bridge.undertaker import Undertaker
from celeriac.fleet.here import here
from celeriac.outcomes import Ref

_NO_ARGUMENTS: tuple[list[Any], dict[str, Any], dict[str, Any]] = ([], {}, {})


class JobRequest(Request):
    """One job of the ledger on its way through the pool.

    No time limit is given to the pool: billiard sets a result before it kills, and only the pool's own bookkeeping would stop it.
    The child's outcome is settled by the child; this side sends events, acknowledges, and reports a child that died.
    """

    def __init__(self, message: Any, ref: Ref, undertaker: Undertaker, *, ack_early: bool, **options: Any) -> None:
        super().__init__(message, body=_NO_ARGUMENTS, headers=message.headers, decoded=True, utc=True, **options)
        self.ref = ref
        self._undertaker = undertaker
        self._ack_early = ack_early

    def execute_using_pool(self, pool: Any, **kwargs: Any) -> Any:
        """One pool call, without limits of the pool's."""
        trace = fast_trace_task if self._app.use_fast_trace_task else trace_task_ret
        request = self._request_dict
        if self.task.limits_at_run_time is not None:
            request = {**request, LIMITS: self.task.limits_at_run_time}
        return pool.apply_async(
            trace,
            args=(self._type, self.id, request, _NO_ARGUMENTS, None, None),
            accept_callback=self.on_accepted,
            callback=self.on_success,
            error_callback=self.on_failure,
            correlation_id=self.id,
        )

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """A child has it. On Redis the message has done its work; on RabbitMQ it is acknowledged at the end, for the window's sake."""
        super().on_accepted(pid, time_accepted)
        if self._ack_early:
            self.acknowledge()

    def on_success(self, failed__retval__runtime: tuple[Any, Any, Any], **kwargs: Any) -> None:
        """The child is through with it. What the ledger has taken is told; what it has not is not."""
        failed, retval, runtime = failed__retval__runtime
        task_ready(self, successful=not failed)
        self.acknowledge()
        if not failed:
            self.send_event("task-succeeded", result=retval, runtime=runtime)
            return
        exc = _raised(retval)
        if isinstance(exc, Retry):
            self.send_event("task-retried", exception=saferepr(exc.exc), traceback=retval.traceback)
        elif isinstance(exc, Reject):
            self.send_event("task-rejected", requeue=exc.requeue)
        elif not isinstance(exc, Ignore):
            self.send_event("task-failed", exception=saferepr(exc), traceback=retval.traceback)

    def on_failure(self, exc_info: ExceptionInfo, send_failed_event: bool = True, return_ok: bool = False) -> None:
        """The child died, or was killed. The ledger decides what becomes of the job, on the undertaker's thread."""
        task_ready(self)
        self.acknowledge()
        if self.worker_pid:
            here().page.forget(self.worker_pid)
        self._undertaker.report(self.ref, self.task, self.worker_pid, _raised(exc_info), self._tell)

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """``revoke(terminate=True)``: the child that runs it is to die, whatever it is at."""
        if self.worker_pid:
            here().page.doom(self.worker_pid)
        super().terminate(pool, signal)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Not called: the pool has no limits of ours."""

    def _tell(self, retried: bool, failure_text: str) -> None:
        kind = "task-retried" if retried else "task-failed"
        self.send_event(kind, exception=failure_text, traceback="")


def _raised(info: ExceptionInfo) -> BaseException:
    """What was raised, out of the wrapping that billiard sends through the pipe. By type: ``Retry`` has an ``exc`` too, its cause."""
    exc: BaseException = info.exception
    if isinstance(exc, ExceptionWithTraceback):
        return exc.exc  # type: ignore[no-any-return]
    return exc


class LateTask:
    """A task as a plain Celery message's request sees it: acknowledged late, whatever the task says.

    Until its row is written by adoption, the message is all there is: it must not be gone before the run is over.
    """

    acks_late = True
    acks_on_failure_or_timeout = True

    def __init__(self, task: Any) -> None:
        self._task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)
