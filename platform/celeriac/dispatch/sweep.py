"""Moves of the scheduler beside dispatch: expiry, switches, types without a handler. In batches, without waiting for row locks."""

from __future__ import annotations

from collections.abc import Callable

from celeriac import events
from celeriac.guard.switches import Switches
from celeriac.ledger import queries, transitions
from celeriac.ledger.queries import Found
from celeriac.ledger.rows import Moved, Why
from celeriac.outcomes import Ref
from celeriac.states import ParkedReason, Status

BATCH = 1000

_EXPIRED = {Status.PENDING: "expired", Status.RETRY: "expired_retry", Status.DISPATCHED: "expired_dispatched"}
_PARKED = {Status.PENDING: "parked", Status.RETRY: "parked_retry", Status.DISPATCHED: "parked_dispatched"}


def expire(term: int) -> int:
    """Waiting and dispatched jobs past ``expires_at`` → CANCELLED."""
    why = Why(f"scheduler, term {term}", "expired before it could start")
    found = queries.expired(BATCH)
    return _by_status(
        found, _EXPIRED, lambda arrow, refs: transitions.finish(arrow, refs, why), "job.cancelled", "expired"
    )


def hold(term: int, switches: Switches) -> int:
    """What is switched off and already in the broker comes back: its fence is raised, so that no worker can claim it.

    Due and dispatched jobs of a type → PARKED, out of the way of the rest of their queue. Dispatched jobs of a queue → PENDING: nothing else
    is in that queue, and it is simply not dispatched.
    """
    done = 0
    if switches.types:
        why = Why(f"scheduler, term {term}", "its type is switched off")

        def park(arrow: str, refs: list[Ref]) -> list[Moved]:
            return transitions.shift(arrow, refs, why, parked=ParkedReason.SWITCH)

        done += _by_status(queries.due_of_types(switches.types, BATCH), _PARKED, park, "job.parked", "switch")
    if switches.queues:
        back = Why(f"scheduler, term {term}", "its queue is switched off")

        def withdraw(arrow: str, refs: list[Ref]) -> list[Moved]:
            return transitions.shift(arrow, refs, back)

        found = queries.dispatched_of_queues(switches.queues, BATCH)
        done += _by_status(found, {Status.DISPATCHED: "withdrawn"}, withdraw, "job.withdrawn", "switch")
    return done


def release(term: int, switches: Switches) -> int:
    """PARKED whose reason has gone → PENDING: the switch is on again, or a worker that knows the type has appeared."""
    done = 0
    for reason, found in (
        (ParkedReason.SWITCH, queries.parked_switch(switches.types, BATCH)),
        (ParkedReason.NO_HANDLER, queries.parked_without_handler(BATCH)),
    ):
        why = Why(f"scheduler, term {term}", f"no longer held: {reason.value}")

        def let_go(arrow: str, refs: list[Ref], why: Why = why) -> list[Moved]:
            return transitions.shift(arrow, refs, why)

        done += _by_status(found, {Status.PARKED: "unparked"}, let_go, "job.unparked", reason.value)
    return done


def _by_status(
    found: list[Found],
    arrows: dict[Status, str],
    move: Callable[[str, list[Ref]], list[Moved]],
    event: str,
    reason: str,
) -> int:
    """Make the arrow of each one's status, and say so of those that moved. Returns how many did."""
    moved: list[Moved] = []
    for status, arrow in arrows.items():
        refs = [f.ref for f in found if f.status is status]
        if refs:
            moved += move(arrow, refs)
    names = queries.named([m.ref.job for m in moved]) if moved else {}
    types = {f.ref.job: f for f in found}
    for m in moved:
        of = types[m.ref.job]
        events.emit(
            event,
            **names.get(m.ref.job, {}),
            task_type=of.task_type,
            queue=of.queue,
            source=m.source.value,
            reason=reason,
        )
    return len(moved)
