"""Outcomes to and from the spool's JSON."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from datetime import datetime
from typing import Any

from celeriac.asked import NewJob
from celeriac.outcomes import Failure, Outcome, Ref
from celeriac.states import ParkedReason, Status

_UUIDS = ("task_id", "trace_id", "root_id", "parent_id", "group_id")
_TIMES = ("run_at", "expires_at")


def to_entry(outcome: Outcome) -> dict[str, Any]:
    """*outcome* as plain JSON data."""
    entry = asdict(outcome)
    entry["run_at"] = outcome.run_at.isoformat() if outcome.run_at else None
    entry["sends"] = [_plain(send) for send in entry["sends"]]
    return entry


def from_entry(entry: dict[str, Any]) -> Outcome:
    """The outcome that :func:`to_entry` was given."""
    failure = entry["failure"]
    return Outcome(
        **{
            **entry,
            "ref": Ref(**entry["ref"]),
            "status": Status(entry["status"]),
            "run_at": datetime.fromisoformat(entry["run_at"]) if entry["run_at"] else None,
            "replaced_by": tuple(entry["replaced_by"]) if entry["replaced_by"] else None,
            "failure": Failure(**failure) if failure else None,
            "sends": tuple(_new_job(send) for send in entry["sends"]),
        }
    )


def _plain(send: dict[str, Any]) -> dict[str, Any]:
    plain = dict(send)
    for name in _UUIDS:
        plain[name] = str(send[name]) if send[name] is not None else None
    for name in _TIMES:
        plain[name] = send[name].isoformat() if send[name] is not None else None
    return plain


def _new_job(plain: dict[str, Any]) -> NewJob:
    fields = dict(plain)
    for name in _UUIDS:
        fields[name] = uuid.UUID(plain[name]) if plain[name] else None
    for name in _TIMES:
        fields[name] = datetime.fromisoformat(plain[name]) if plain[name] else None
    parked = plain["parked_reason"]
    fields["parked_reason"] = ParkedReason(parked) if parked else None
    return NewJob(**fields)
