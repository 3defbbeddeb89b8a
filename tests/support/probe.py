"""A small Celery app whose jobs leave a trace of every execution where the platform has no say: ``celery -A tests.support.probe``.

An effect is a row of a table of our own, so that what ran twice is there twice; jobs that run while the database is away
write a line of a file instead. A gate is a file that a job waits for: tests open it, and nothing waits for time.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from celery.utils.log import get_task_logger
from django.db import transaction

from celeriac import Backoff, Celery, JobError, Policy
from tests.support import effects

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings.test")

# Not the current app of a process that only imports it: in the tests' own process that is the shop's.
app = Celery("probe", set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")

if os.environ.get("PROBE_VISIBILITY"):
    # Seconds after which Redis' transport takes an unacknowledged message for lost.
    app.conf.broker_transport_options = {
        "visibility_timeout": float(os.environ["PROBE_VISIBILITY"]),
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }

if os.environ.get("PROBE_RESULT_BACKEND"):
    # Where senders that use plain Celery look.
    app.conf.result_backend = os.environ["PROBE_RESULT_BACKEND"]

logger = get_task_logger(__name__)

AT_ONCE = Backoff(initial=0, jitter=0)
#: Longer than any test's patience: a gate that nobody opens is a test that failed.
PATIENCE = 300.0


class Refused(Exception):
    """The third party said no."""


def gate(name: str) -> Path:
    """The file that opens the gate."""
    return Path(os.environ["PROBE_FOLDER"]) / f"gate-{name}"


def _through(name: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not gate(name).exists() and time.monotonic() < deadline:
        time.sleep(0.01)


@app.task(bind=True)
def note(self: Any, word: str) -> str:
    """Leave one effect."""
    effects.row(self.request.id, word)
    return word


@app.task(bind=True, policy=Policy(max_retries=2, backoff=AT_ONCE))
def hold(self: Any, word: str, name: str) -> str:
    """Leave an effect, then wait for the gate."""
    effects.row(self.request.id, word)
    _through(name)
    return word


@app.task(bind=True)
def hold_without_policy(self: Any, word: str, name: str) -> str:
    """As ``hold``, with Celery's meaning of a failure."""
    effects.row(self.request.id, word)
    _through(name)
    return word


@app.task(bind=True)
def hold_on_paper(self: Any, word: str, name: str) -> str:
    """As ``hold``, without the database: the gate first, then a line."""
    _through(name)
    effects.line(self.request.id, word)
    return word


@app.task(bind=True)
def pause_on_paper(self: Any, word: str, seconds: float) -> str:
    """Work for some seconds, then leave a line."""
    time.sleep(seconds)
    effects.line(self.request.id, word)
    return word


# ---- what is lost, stuck or deadly ---------------------------------------------------------------------------------------


@app.task(bind=True)
def work(self: Any, word: str, seconds: float = 0.0) -> str:
    """Leave one effect, then work for a moment: what is killed meanwhile leaves another one."""
    effects.row(self.request.id, word)
    time.sleep(seconds)
    return word


@app.task(bind=True)
def carry(self: Any, word: str, ballast: str) -> int:
    """As ``note``, with heavy arguments."""
    effects.row(self.request.id, word)
    return len(ballast)


@app.task(bind=True, policy=Policy(on_lost="review"))
def hold_for_review(self: Any, word: str, name: str) -> str:
    """As ``hold``; lost, a person decides."""
    effects.row(self.request.id, word)
    _through(name)
    return word


@app.task(bind=True, policy=Policy(max_retries=2, backoff=AT_ONCE))
def poison(self: Any, word: str) -> None:
    """Take the whole worker along: the main process, its children and this one, as the kernel does that runs out of memory."""
    effects.row(self.request.id, word)
    os.killpg(0, signal.SIGKILL)


@app.task(bind=True, policy=Policy(timeout=0.5, on_stuck="review", max_retries=3, backoff=AT_ONCE))
def stick_for_review(self: Any, word: str, name: str) -> str:
    """Run past the hard limit in a pool that can't stop a run, until the gate opens."""
    effects.row(self.request.id, word)
    _through(name)
    return word


@app.task(bind=True, policy=Policy(timeout=0.5, on_stuck="restart", max_retries=3, backoff=AT_ONCE))
def stick_and_restart(self: Any, word: str, name: str) -> str:
    """As ``stick_for_review``; its worker is restarted for it."""
    effects.row(self.request.id, word)
    _through(name)
    return word


@app.task(bind=True, policy=Policy(timeout=4, on_stuck="review", max_retries=3, backoff=AT_ONCE))
def outlast(self: Any, word: str, name: str) -> str:
    """As ``hold_on_paper``, with a hard limit of 4 s."""
    _through(name)
    effects.line(self.request.id, word)
    return word


@app.task
def add(x: int, y: int) -> int:
    """The one that everybody writes first."""
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    """A chord's body."""
    return sum(numbers)


@app.task
def echo(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """What arrived: as Python writes it, and as it is."""
    return {"repr": repr((args, kwargs)), "args": list(args), "kwargs": kwargs}


@app.task
def do_nothing() -> None:
    """Do nothing, and return nothing."""


@app.task(bind=True)
def fail(self: Any, word: str, message: str = "no") -> None:
    """Leave an effect and fail."""
    effects.row(self.request.id, word)
    raise Refused(message)


@app.task(bind=True, policy=Policy(max_retries=2, backoff=AT_ONCE))
def fail_by_letters(self: Any, word: str) -> None:
    """Fail with A, then B, then C."""
    effects.row(self.request.id, word)
    letter = "ABC"[self.request.retries]
    raise JobError(f"failure {letter}", code=f"PROBE_{letter}X_503")


@app.task(bind=True, max_retries=5)
def retry_in_atomic(self: Any, word: str, done: int = 0) -> int:
    """Ask for another run with other arguments, from inside a transaction that the request must not roll back with."""
    effects.row(self.request.id, f"{word} {done}")
    with transaction.atomic():
        effects.row(self.request.id, f"{word} kept")
        if done < 2:
            raise self.retry(args=(word,), kwargs={"done": done + 1}, countdown=0.3)
    return done


@app.task(bind=True, max_retries=1)
def retry_too_often(self: Any, word: str) -> None:
    """Ask for more runs than are allowed."""
    effects.row(self.request.id, word)
    raise self.retry(exc=Refused("still no"), countdown=0)


@app.task(bind=True, policy=Policy(max_retries=1, timeout=0.6, backoff=AT_ONCE))
def overrun(self: Any, word: str) -> None:
    """Run past the hard limit."""
    effects.row(self.request.id, word)
    _through("never")


@app.task(bind=True, policy=Policy(max_retries=0, timeout=0.6, on_exhausted="fail"))
def overrun_and_fail(self: Any, word: str) -> None:
    """Run past the hard limit, for good."""
    effects.row(self.request.id, word)
    _through("never")


@app.task(bind=True, soft_time_limit=0.4)
def heed(self: Any, word: str) -> str:
    """Run past the soft limit, and take the hint."""
    effects.row(self.request.id, word)
    try:
        _through("never")
    except SoftTimeLimitExceeded:
        return "cleaned up"
    return "never"


@app.task(bind=True, soft_time_limit=0.4)
def ignore_the_hint(self: Any, word: str) -> None:
    """Run past the soft limit, unprepared."""
    effects.row(self.request.id, word)
    _through("never")


@app.task(bind=True)
def leave(self: Any, word: str) -> None:
    """Call ``sys.exit`` in a job."""
    effects.row(self.request.id, word)
    raise SystemExit(3)


@app.task(bind=True)
def return_a_socket(self: Any, word: str) -> dict[str, Any]:
    """Return what JSON can't keep."""
    effects.row(self.request.id, word)
    return {"fine": 1, "rows": [object()]}


@app.task(bind=True)
def return_secrets(self: Any, *secrets: str, **named: str) -> dict[str, Any]:
    """Say, log and return what it was given."""
    print("printed:", secrets, named)
    logger.warning("logged: %s %s", secrets, named)
    return {"secrets": list(secrets), **named}


@app.task(bind=True)
def raise_secrets(self: Any, *secrets: str, **named: str) -> None:
    """Raise an error that quotes what it was given."""
    raise Refused(f"refused for {' and '.join(secrets)}; {named}")


@app.task(bind=True, policy=Policy(max_retries=1, backoff=AT_ONCE))
def raise_secrets_again(self: Any, *secrets: str, **named: str) -> None:
    """Raise an error that quotes what it was given, with another one behind it, until a person must look."""
    try:
        raise ValueError(f"bad value {secrets}")
    except ValueError as cause:
        raise Refused(f"refused for {' and '.join(secrets)}; {named}") from cause


@app.task(bind=True, policy=Policy(max_retries=0))
def refuse_until(self: Any, word: str, name: str) -> str:
    """Fail while the gate is shut."""
    effects.row(self.request.id, word)
    if not gate(name).exists():
        raise Refused("not yet")
    return word


@app.task(bind=True)
def send_another(self: Any, word: str) -> str:
    """Send a job from inside a job."""
    with transaction.atomic():
        return str(note.delay(word).id)


@app.task(bind=True)
def errback(self: Any, failed_id: str) -> None:
    """A ``link_error`` of the new style's old kind: it gets the failed job's id."""
    effects.row(failed_id, "errback")


@app.task(bind=True)
def replace_by(self: Any, canvas: dict[str, Any]) -> None:
    """Have a canvas take this job's place."""
    raise self.replace(app.signature(canvas))


@app.task(bind=True, max_retries=0)
def replace_by_itself(self: Any, times: int) -> int:
    """Ten times is nothing that a retry limit minds."""
    if times:
        raise self.replace(replace_by_itself.s(times - 1))
    effects.row(self.request.id, "replaced by itself")
    return times


@app.task(bind=True, policy=Policy(max_retries=2, backoff=Backoff(initial=60, jitter=0)))
def retry_later(self: Any, word: str) -> None:
    """Fail once."""
    effects.row(self.request.id, word)
    if not self.request.retries:
        raise Refused("not yet")


@app.task
def echo_for_ever() -> None:
    """Enqueue oneself."""
    echo_for_ever.delay()


@app.task(bind=True)
def report_progress(self: Any, name: str) -> str:
    """Say how far it is, and wait at the gate."""
    self.update_state(state="PROGRESS", meta={"done": 3, "of": 10})
    _through(name)
    return "done"


# ---- types that only some workers know -----------------------------------------------------------------------------------

if os.environ.get("PROBE_KNOWS_MORE"):

    @app.task(bind=True, name="tests.support.probe.newcomer")
    def newcomer(self: Any, word: str) -> str:
        """A type that came with a later release."""
        effects.row(self.request.id, word)
        return word
