"""An app that says what it hears: ``celery -A tests.support.callee``. For tests of calling: signals, routes, Sentry.

What Celery's signals carry is written to a file, one line each, under the job's id (`tests/support/effects.py`).
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from celery import signals
from kombu import Exchange, Queue

from celeriac import Backoff, Celery, Policy
from tests.support import effects, probe

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings.test")

app = Celery("callee", set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_queues = (
    Queue("default"),
    Queue("side"),
    Queue("videos", Exchange("media"), routing_key="media.video"),
    Queue("feeds", Exchange("news", type="topic"), routing_key="feed.#"),
)
app.conf.task_routes = {
    "tests.support.callee.routed": {"queue": "side"},
    "tests.support.callee.filmed": {"exchange": "media", "routing_key": "media.video"},
    "unknown.to.the.caller": "side",
}

if os.environ.get("CALLEE_SOFT"):
    app.conf.worker_soft_shutdown_timeout = float(os.environ["CALLEE_SOFT"])

AT_ONCE = Backoff(initial=0, jitter=0)


@app.task(bind=True)
def note(self: Any, word: str) -> str:
    """Leave one effect."""
    effects.row(self.request.id, word)
    return word


@app.task(bind=True)
def routed(self: Any) -> str:
    """Say which queue it came by."""
    return str(self.request.delivery_info["routing_key"])


@app.task(bind=True)
def filmed(self: Any) -> str:
    """As ``routed``; its route is an exchange and a key."""
    return str(self.request.delivery_info["routing_key"])


@app.task(bind=True)
def told(self: Any) -> dict[str, Any]:
    """What the request says that the caller, or a signal's receiver, has put there."""
    asked = self.request
    return {"headers": asked.get("x_added"), "given": asked.get("x_given"), "shadow": asked.shadow}


@app.task(bind=True)
def hold(self: Any, word: str, name: str) -> str:
    """Leave an effect, then wait for the gate."""
    effects.row(self.request.id, word)
    probe._through(name)
    return word


@app.task(bind=True, max_retries=5)
def again_in(self: Any, word: str, seconds: float) -> str:
    """Run twice, with a countdown between."""
    effects.row(self.request.id, word)
    if not self.request.retries:
        raise self.retry(countdown=seconds)
    return word


@app.task(bind=True, max_retries=5)
def again_at(self: Any, word: str, seconds: float) -> str:
    """Run twice, the second time at a moment that the database's clock gave."""
    effects.row(self.request.id, word)
    if not self.request.retries:
        raise self.retry(eta=effects.now() + timedelta(seconds=seconds))
    return word


@app.task(bind=True, policy=Policy(max_retries=2, backoff=AT_ONCE, on_exhausted="fail"))
def fail_always(self: Any, word: str, **named: str) -> None:
    """Fail in each of three attempts."""
    effects.row(self.request.id, word)
    raise probe.Refused(f"no {self.request.retries}")


@app.task(bind=True, policy=Policy(max_retries=2, backoff=AT_ONCE))
def fail_once(self: Any, word: str) -> str:
    """Fail in the first attempt only."""
    effects.row(self.request.id, word)
    if not self.request.retries:
        raise probe.Refused("not yet")
    return word


@app.task(bind=True, policy=Policy(max_retries=1, timeout=0.6, on_exhausted="fail", backoff=AT_ONCE))
def overrun(self: Any, word: str) -> None:
    """Run past the hard limit, twice."""
    effects.row(self.request.id, word)
    probe._through("never")


@app.task
def what_time() -> datetime:
    """What this host takes for now."""
    return datetime.now(UTC)


@app.task
def send_note(word: str) -> str:
    """Send a job from inside a job."""
    return str(note.delay(word).id)


@app.task(name="unknown.to.the.caller")
def stranger(when: datetime) -> list[str]:
    """Known by its name only."""
    return [type(when).__name__, when.isoformat()]


# ---- what is heard ---------------------------------------------------------------------------------------------------------


def _say(job: Any, heard: str, **what: Any) -> None:
    effects.line(str(job), json.dumps({"signal": heard, **what}, default=repr))


if os.environ.get("CALLEE_LISTENS"):

    @signals.task_received.connect(weak=False)
    def _received(request: Any, **more: Any) -> None:
        _say(request.id, "received", name=request.name)

    @signals.task_prerun.connect(weak=False)
    def _prerun(task_id: str, task: Any, args: Any, kwargs: Any, **more: Any) -> None:
        _say(task_id, "prerun", args=list(args), kwargs=kwargs)

    @signals.task_postrun.connect(weak=False)
    def _postrun(task_id: str, task: Any, args: Any, kwargs: Any, retval: Any, state: str, **more: Any) -> None:
        _say(task_id, "postrun", args=list(args), kwargs=kwargs, state=state)

    @signals.task_success.connect(weak=False)
    def _success(sender: Any, result: Any, **more: Any) -> None:
        _say(sender.request.id, "success", result=result)

    @signals.task_failure.connect(weak=False)
    def _failure(sender: Any, task_id: str, exception: BaseException, args: Any, kwargs: Any, **more: Any) -> None:
        _say(task_id, "failure", args=list(args), kwargs=kwargs, error=str(exception))

    @signals.task_retry.connect(weak=False)
    def _retry(sender: Any, request: Any, reason: Any, **more: Any) -> None:
        _say(request.id, "retry", args=list(request.args), kwargs=request.kwargs)

    @signals.task_revoked.connect(weak=False)
    def _revoked(sender: Any, request: Any, terminated: bool, expired: bool, **more: Any) -> None:
        _say(request.id, "revoked", terminated=terminated, expired=expired)

    @signals.task_internal_error.connect(weak=False)
    def _internal(sender: Any, task_id: str, **more: Any) -> None:
        _say(task_id, "internal error")


# ---- Sentry, with a transport that writes to a file -------------------------------------------------------------------------

if os.environ.get("CALLEE_SENTRY"):
    import sentry_sdk
    from sentry_sdk.transport import Transport

    class ToFile(Transport):
        """Every envelope's items, one line each."""

        def capture_envelope(self, envelope: Any) -> None:
            paper = Path(os.environ["CALLEE_SENTRY"])
            for item in envelope.items:
                said = item.payload.json
                if said is not None:
                    with paper.open("a") as file:
                        file.write(json.dumps([item.type, said]) + "\n")

    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1", transport=ToFile, traces_sample_rate=1.0, send_default_pii=True, debug=False
    )
