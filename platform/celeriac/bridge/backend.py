"""The result backend: what the tracer stores is remembered by the run; what callers ask is answered from the ledger.

A class attribute of the app (``backend_cls``), so that a project's ``backend=`` can't switch it off. Groups and chord counters stay with
django-celery-results, in the same database. Results of tasks outside the ledger go to the ``result_backend`` of the project, where their
senders look; to django-celery-results where there is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from celery import states as celery_states
from celery.app.backends import by_url
from celery.exceptions import TimeoutError as CeleryTimeout
from django.utils.functional import cached_property
from django_celery_results.backends import DatabaseBackend
from django_celery_results.models import ChordCounter
from kombu.exceptions import EncodeError

from celeriac import conf, ids
from celeriac.bridge import codec
from celeriac.errors import PayloadUnreadable, ResultNotSerialisable, ResultTooLarge
from celeriac.ledger import transitions
from celeriac.models import ErrorEvent, Job, Worker
from celeriac.run.current import current, current_of
from celeriac.run.run import Ended
from celeriac.settle.failure import describe
from celeriac.states import CELERY_STATE, Status

#: Seconds between the first looks of somebody who waits for a result.
FIRST_PAUSE: Final = 0.005

#: The job whose failure is being propagated: its own result is in the ledger.
_told: ContextVar[str | None] = ContextVar("celeriac_told", default=None)


class _Unencodable(ResultNotSerialisable, EncodeError):
    """Taken for a failure of the task by Celery's tracer, and named by our code."""

    def __init__(self, cause: ResultNotSerialisable | ResultTooLarge) -> None:
        super().__init__(str(cause), code=cause.code)


def configured_backend(app: Any) -> Any:
    """The result backend that plain Celery would use with this project's settings."""
    backend, url = by_url(app.conf.result_backend or "disabled://", app.loader)
    return backend(app=app, url=url)


class LedgerBackend(DatabaseBackend):
    """Remembers inside a run of the ledger; stores outside of one."""

    @cached_property
    def _elsewhere(self) -> Any | None:
        """Where results of tasks outside the ledger are, if that isn't this database."""
        if str(self.app.conf.result_backend or "disabled").startswith("disabled"):
            return None
        backend = configured_backend(self.app)
        return None if isinstance(backend, DatabaseBackend) else backend

    def _is_plain(self, task_id: str) -> bool:
        """Whether *task_id* is a message's that no job stands for. What a run stores of others is written with its settle, or not at all."""
        return current() is None and not _is_job(task_id)

    # ---- what the tracer says ------------------------------------------------------------------------------------------------

    def mark_as_done(
        self,
        task_id: str,
        result: Any,
        request: Any = None,
        store_result: bool = True,
        state: str = celery_states.SUCCESS,
    ) -> None:
        run = current_of(task_id)
        if run is None:
            super().mark_as_done(task_id, result, request, store_result, state)
            return
        try:
            encoded = codec.encode_result(result) if store_result else None
        except (ResultNotSerialisable, ResultTooLarge) as exc:
            # What Celery hands on is a copy that has lost its code.
            run.raised = _Unencodable(exc)
            raise run.raised from exc
        run.ended = Ended(celery_states.SUCCESS, result=encoded, request=request, value=result)

    def mark_as_failure(
        self,
        task_id: str,
        exc: BaseException,
        traceback: Any = None,
        request: Any = None,
        store_result: bool = True,
        call_errbacks: bool = True,
        state: str = celery_states.FAILURE,
    ) -> None:
        run = current_of(task_id)
        if run is None:
            super().mark_as_failure(task_id, exc, traceback, request, store_result, call_errbacks, state)
            return
        run.ended = Ended(
            celery_states.FAILURE, error=exc, traceback=traceback, request=request, call_errbacks=call_errbacks
        )

    def mark_as_retry(
        self,
        task_id: str,
        exc: BaseException,
        traceback: Any = None,
        request: Any = None,
        store_result: bool = True,
        state: str = celery_states.RETRY,
    ) -> None:
        run = current_of(task_id)
        if run is None:
            super().mark_as_retry(task_id, exc, traceback, request, store_result, state)
            return
        # Celery hands over the cause of a Retry, or its text where there is none.
        error = exc if isinstance(exc, BaseException) else None
        run.ended = Ended(celery_states.RETRY, error=error, traceback=traceback, request=request)

    def store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **kwargs: Any
    ) -> Any:
        if _told.get() == task_id:
            return result
        run = current_of(task_id)
        if run is not None:
            if state != celery_states.STARTED:  # track_started: the ledger knows since the claim
                said = {"state": state, "meta": result, "attempt": run.claimed.attempt}
                transitions.progress(run.claimed.ref, codec.encode_result(said) or "")
            return result
        if state in (celery_states.FAILURE, celery_states.REVOKED) and isinstance(result, BaseException):
            # Celery tells the end of a canvas that has failed; a job that it had replaced ends with it.
            told_by_celery = "chord" in (getattr(request, "options", None) or {})
            if transitions.upstream_failed(ids.to_uuid(task_id)[0], describe(result, ""), tell=not told_by_celery):
                return result
        if self._elsewhere is not None and self._is_plain(task_id):
            return self._elsewhere.store_result(task_id, result, state, traceback=traceback, request=request, **kwargs)
        return super().store_result(task_id, result, state, traceback=traceback, request=request, **kwargs)

    def on_chord_part_return(self, request: Any, state: str, result: Any, **kwargs: Any) -> None:
        """Counted where the chord was begun: here, or by a plain sender in the backend that it knows."""
        if (
            self._elsewhere is not None
            and self._is_plain(request.id)
            and not ChordCounter.objects.filter(group_id=request.group).exists()
        ):
            self._elsewhere.on_chord_part_return(request, state, result, **kwargs)
        else:
            super().on_chord_part_return(request, state, result, **kwargs)

    def propagate_failure(
        self,
        request: Any,
        exc: BaseException,
        traceback: Any,
        *,
        call_errbacks: bool,
        state: str = celery_states.FAILURE,
    ) -> None:
        """Celery's propagation of a failure: chord part, the rest of the chain, errbacks. The result itself is the ledger's."""
        token = _told.set(request.id)
        try:
            # Stored is what comes behind: whoever waits for the end of a chain learns that it won't come.
            super().mark_as_failure(
                request.id, exc, traceback, request, store_result=True, call_errbacks=call_errbacks, state=state
            )
        finally:
            _told.reset(token)

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Nothing to prepare: no reply queue, no subscription."""

    # ---- what callers wait for -----------------------------------------------------------------------------------------------

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_interval: Callable[[], Any] | None = None,
    ) -> Any:
        """As in Celery; looked at often at first, so that whoever waits for a job of milliseconds doesn't wait for half a second.

        The pauses grow with the time that has gone by, a tenth of it each, up to *interval*.
        """
        begun = time.monotonic()
        while True:
            waited = time.monotonic() - begun
            pause = min(interval, max(FIRST_PAUSE, waited / 10))
            left = None if timeout is None else timeout - waited
            try:
                return super().wait_for(
                    task_id, min(pause, max(0.0, left if left is not None else pause)), pause, no_ack, on_interval
                )
            except CeleryTimeout:
                if left is not None and left <= pause:
                    raise

    # ---- what callers ask ----------------------------------------------------------------------------------------------------

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        job = Job.objects.using(conf.alias()).known_as(task_id).with_status().first()
        if job is None:
            # The end of a chain whose job has failed is here, written with that failure; what plain messages came to, elsewhere.
            meta: dict[str, Any] = super()._get_task_meta_for(task_id)
            if meta["status"] == celery_states.PENDING and self._elsewhere is not None:
                meta = self._elsewhere._get_task_meta_for(task_id)
            return meta
        status, live = job.status, getattr(job, "live", None) if job.outcome is None else None
        state = CELERY_STATE[status] if status is not None else celery_states.PENDING
        meta = {
            "task_id": task_id,
            "status": state,
            "result": None,
            "traceback": None,
            "children": [],
            "date_done": job.ended_at,
            "name": job.task_type,
            "retries": job.retry_count if live is None else live.retry_count,
            "queue": job.queue,
            "parent_id": str(job.parent_id) if job.parent_id else None,
        }
        if status is Status.RUNNING and live is not None and job.result is not None:
            said = codec.decode_result(job.result)
            if said["attempt"] == live.attempt:
                meta |= {"status": said["state"], "result": said["meta"]}
        elif status is Status.SUCCEEDED:
            meta["result"] = codec.decode_result(job.result)
        elif state in (celery_states.FAILURE, celery_states.RETRY):
            meta |= self._failure_of(job, status)
        elif state == celery_states.REVOKED:
            meta["result"] = self._exception_of(job, status)
        if self.app.conf.find_value_for_key("extended", "result"):
            meta |= _extended(job, live)
        return meta

    def task_result_exists(self, task_id: str) -> bool:
        """Whether *task_id* is known at all: a job, or a task outside the ledger that has left a result. One that waits is known, too."""
        if _is_job(task_id) or super().task_result_exists(task_id):
            return True
        return self._elsewhere is not None and bool(self._elsewhere.task_result_exists(task_id))

    def _failure_of(self, job: Job, status: Status | None) -> dict[str, Any]:
        """Exception and traceback of the last attempt. A job that will be tried again has its error in the event alone, redacted."""
        last = ErrorEvent.objects.using(conf.alias()).filter(job_id=job.seq).order_by("-id").first()
        error = f"{last.kind}: {last.message}" if last is not None and job.outcome is None else job.error
        return {
            "result": self._exception_of(job, status, error),
            "traceback": (last.traceback or None) if last is not None else None,
        }

    def _exception_of(self, job: Job, status: Status | None, error: str | None = None) -> Any:
        kind, _, message = (error or job.error or "").partition(": ")
        if status is Status.CANCELLED:
            return self.exception_to_python(
                {"exc_type": "TaskRevokedError", "exc_module": "celery.exceptions", "exc_message": ["cancelled"]}
            )
        if not kind:
            return None
        module, _, name = kind.rpartition(".")
        return self.exception_to_python(
            {"exc_type": name, "exc_module": module or "builtins", "exc_message": [message]}
        )

    def _forget(self, task_id: str) -> None:
        """The result is forgotten, the job is not: it is the ledger's."""
        Job.objects.using(conf.alias()).known_as(task_id).update(result=None)
        super()._forget(task_id)  # a task outside the ledger, or the mirror of a job
        if self._elsewhere is not None and not _is_job(task_id):
            self._elsewhere.forget(task_id)


def _is_job(task_id: str) -> bool:
    return Job.objects.using(conf.alias()).known_as(task_id).exists()


def _extended(job: Job, live: Any) -> dict[str, Any]:
    """What ``result_extended`` adds: the arguments, and the worker of the last run."""
    try:
        body = codec.decode_payload(job.payload)
    except PayloadUnreadable:
        body = {"args": None, "kwargs": None}
    ran_on = job.worker if live is None else live.worker
    workers = Worker.objects.using(conf.alias()).filter(id__in=[ran_on] if ran_on else [])
    worker = workers.values_list("hostname", flat=True).first()
    return {"args": body["args"], "kwargs": body["kwargs"], "worker": worker}
