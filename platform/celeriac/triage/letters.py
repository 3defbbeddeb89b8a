"""The ways out of the dead letters. The admin calls these; no rule lives there.

Each decision names who, why, and the version of the letter that the person saw: a letter that has moved meanwhile is refused with
:class:`~celeriac.errors.Moved`, and nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from celeriac import conf, events
from celeriac.clock import Now
from celeriac.errors import CeleriacError, Moved
from celeriac.ledger import queries, transitions
from celeriac.ledger.rows import Why
from celeriac.models import DeadLetter, Job, TriageDecision

Action = TriageDecision.Action


class ReasonMissing(CeleriacError, ValueError):
    """A decision needs a reason: the next person will ask."""


class BadPayload(CeleriacError, ValueError):
    """The edited arguments can't be used."""


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides. ``user_id`` is absent for a command line."""

    name: str
    user_id: Any = None


def payload_of(letter: DeadLetter) -> dict[str, Any]:
    """The stored ``args`` and ``kwargs`` as JSON data, unredacted: show them only to whoever may see payloads."""
    stored = _stored(letter)
    return {"args": stored.get("args", []), "kwargs": stored.get("kwargs", {})}


def run_again(letter: DeadLetter, by: Decider, reason: str) -> None:
    """Send the job back as it is: a new life with all its retries, next in line of its queue.

    Raises ``Moved``, ``ReasonMissing``.
    """
    _decide(letter, by, reason, Action.RUN_AGAIN, DeadLetter.State.REDELIVERED, lambda why: _revive(letter, why, None))


def edit_and_redeliver(letter: DeadLetter, by: Decider, reason: str, args: Any, kwargs: Any) -> None:
    """Send the job back with other arguments. Links, chain, chord and headers stay as they were.

    Arguments are JSON data in the form that :func:`payload_of` gives (types that JSON lacks are objects with ``__type__``).

    Raises ``Moved``, ``ReasonMissing``, ``BadPayload``.
    """
    if not isinstance(args, list):
        raise BadPayload('args must be a JSON list, for example [42, "text"]')
    if not isinstance(kwargs, dict) or not all(isinstance(key, str) for key in kwargs):
        raise BadPayload('kwargs must be a JSON object, for example {"order_id": 42}')
    stored = _stored(letter)
    changed = [name for name, new in (("args", args), ("kwargs", kwargs)) if stored.get(name, type(new)()) != new]
    for name, new in (("args", args), ("kwargs", kwargs)):
        if new:
            stored[name] = new
        else:
            stored.pop(name, None)
    stored.get("headers", {}).pop("argsrepr", None)
    stored.get("headers", {}).pop("kwargsrepr", None)
    payload = json.dumps(stored, separators=(",", ":"))
    if len(payload) > conf.get("MAX_PAYLOAD_BYTES"):
        raise BadPayload(f"The arguments are {len(payload):,} bytes, more than CELERIAC['MAX_PAYLOAD_BYTES'] allows.")
    change = f"changed: {', '.join(changed) or 'nothing'}"
    _decide(
        letter, by, reason, Action.EDIT, DeadLetter.State.REDELIVERED, lambda why: _revive(letter, why, payload), change
    )


def ignore(letter: DeadLetter, by: Decider, reason: str) -> None:
    """Close the letter: the job ends as CANCELLED and stays in the ledger with the reason.

    Raises ``Moved``, ``ReasonMissing``.
    """
    _decide(letter, by, reason, Action.IGNORE, DeadLetter.State.IGNORED, lambda why: _close(letter, why))


def _stored(letter: DeadLetter) -> dict[str, Any]:
    """The whole payload as it is stored. Raises ``BadPayload`` for one that somebody has broken by hand."""
    payload = Job.objects.using(conf.alias()).values_list("payload", flat=True).get(seq=letter.job_id)
    try:
        stored = json.loads(payload)
    except ValueError as exc:
        raise BadPayload(f"The stored arguments can't be read: {exc}") from exc
    if not isinstance(stored, dict):
        raise BadPayload("The stored arguments are no JSON object.")
    return stored


def _decide(
    letter: DeadLetter,
    by: Decider,
    reason: str,
    action: str,
    state: str,
    move: Callable[[Why], None],
    change: str = "",
) -> None:
    reason = reason.strip()
    if not reason:
        raise ReasonMissing
    using = conf.alias()
    with transaction.atomic(using=using):
        # First the letter, guarded by the version that was seen: of two people only one gets past this line.
        taken = DeadLetter.objects.using(using).open().filter(pk=letter.pk, version=letter.version)
        if not taken.update(state=state, version=F("version") + 1, closed_at=Now()):
            raise Moved("This dead letter has moved since you opened it. Load the page again to see by whom and why.")
        move(Why(by.name, reason))
        TriageDecision.objects.using(using).create(
            dead_letter_id=letter.pk,
            action=action,
            user_id=by.user_id,
            actor=by.name,
            at=Now(),
            reason=reason,
            change=change,
        )
    name = "job.ignored" if action == Action.IGNORE else "job.redelivered"
    events.emit(
        name,
        **queries.named([letter.job_id]).get(letter.job_id, {}),
        task_type=letter.task_type,
        queue=letter.queue,
        reason=reason,
        actor=by.name,
    )
    letter.refresh_from_db()


def _revive(letter: DeadLetter, why: Why, payload: str | None) -> None:
    if transitions.revive(letter.job_id, letter.fence, why, payload, _time_limit(letter)) is None:
        raise Moved("The job of this dead letter has moved since. Load the page again.")


def _time_limit(letter: DeadLetter) -> float | None:
    """The hard limit that the call asked for, for the second life, too. Unreadable arguments come back here with that as their error."""
    try:
        limit = (_stored(letter).get("headers") or {}).get("time_limit")
    except BadPayload:
        return None
    return float(limit) if isinstance(limit, (int, float)) else None


def _close(letter: DeadLetter, why: Why) -> None:
    if not transitions.close("ignored", letter.job_id, letter.fence, why):
        raise Moved("The job of this dead letter has moved since. Load the page again.")
