"""What the platform says happened: emitted once, low; formatted once, high (``celeriac.observe``).

``emit`` hands a frozen :class:`Event` to every subscriber. A subscriber that raises is logged and never fails a job.
``EVENTS`` is the published table; ``docs/reference/events.md`` is tied to it by a test.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

logger = logging.getLogger("celeriac")

#: Event -> (log level, what it means).
EVENTS: Final[dict[str, tuple[int, str]]] = {
    "job.accepted": (logging.DEBUG, "Rows written in the caller's transaction."),
    "job.dispatched": (logging.DEBUG, "Handed to the broker."),
    "job.sent_again": (logging.INFO, "Sent again, with the evidence as reason."),
    "job.claimed": (logging.DEBUG, "A worker has it, under a new fence."),
    "job.claim_refused": (logging.INFO, "A message came for a job that is no longer there to claim."),
    "job.succeeded": (logging.INFO, "Ended well."),
    "job.retried": (logging.WARNING, "Failed or asked for it; runs again at run_at."),
    "job.failed": (logging.ERROR, "Ended as FAILED."),
    "job.dead_lettered": (logging.ERROR, "Waits for a person."),
    "job.cancelled": (logging.INFO, "Ended without running to its end."),
    "job.parked": (logging.WARNING, "Held, with the reason."),
    "job.unparked": (logging.INFO, "The reason has gone."),
    "job.handed_back": (logging.WARNING, "Stopped by us; runs again, nobody is charged."),
    "job.withdrawn": (logging.INFO, "Taken back from the broker."),
    "job.lost": (logging.ERROR, "Its process died."),
    "job.timed_out": (logging.ERROR, "Ran past its hard limit and was killed."),
    "job.outcome_refused": (logging.WARNING, "An outcome came too late: the fence has moved on."),
    "job.spooled": (logging.WARNING, "The database was away; the outcome waits on disk."),
    "job.redelivered": (logging.INFO, "A person sent a dead letter back."),
    "job.ignored": (logging.INFO, "A person closed a dead letter with a reason."),
    "message.quarantined": (logging.ERROR, "A message that is no job was set aside with its raw bytes."),
    "worker.started": (logging.INFO, "An incarnation began to beat."),
    "worker.stopped": (logging.INFO, "An incarnation ended in good order."),
    "worker.gone": (logging.ERROR, "An incarnation was judged dead; its jobs run again."),
    "worker.deaf": (logging.ERROR, "A worker hears nothing over its connection to the broker; it is made anew."),
    "worker.wedged": (logging.ERROR, "A worker's main loop makes no turn, or no child of its pool becomes ready."),
    "fleet.late": (logging.ERROR, "More than half of the fleet is late together: verdicts wait three times as long."),
    "scheduler.deadlines_extended": (logging.WARNING, "Nobody led for a while: running jobs get the time back."),
    "scheduler.leading": (logging.INFO, "Took the lease."),
    "scheduler.standby": (logging.INFO, "Another scheduler leads."),
    "scheduler.broker_away": (logging.WARNING, "Publishing failed; jobs wait in the ledger."),
    "scheduler.broker_back": (logging.INFO, "Publishing works again."),
    "switch.changed": (logging.WARNING, "Consumption was switched."),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``fields`` use the log field names of the design (job_id, task_type, queue, ...)."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)


Subscriber = Callable[[Event], None]
_subscribers: list[Subscriber] = []


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Call *subscriber* with each event, in the emitting thread, after the fact. Returns what ends the subscription."""
    _subscribers.append(subscriber)
    return lambda: _subscribers.remove(subscriber)


def wanted(name: str) -> bool:
    """Whether anybody listens to *name*: for callers to whom its fields cost something."""
    return bool(_subscribers) or logger.isEnabledFor(EVENTS[name][0])


def emit(name: str, **fields: Any) -> None:
    """Say that *name* happened. Fields that are None are left out. Cheap when nobody listens at that level."""
    level = EVENTS[name][0]
    wanted = logger.isEnabledFor(level)
    if not wanted and not _subscribers:
        return
    known = {key: value for key, value in fields.items() if value is not None}
    event = Event(name, known)
    for subscriber in tuple(_subscribers):
        try:
            subscriber(event)
        except Exception:  # a broken observer must not take a job down; the traceback is in the log
            logger.exception("A subscriber of %s raised", name)
    if wanted:
        logger.log(level, name, extra={"celeriac": known})
