"""``release ID``: lets a job go that is held for review, after its process died or because its run got stuck."""

from __future__ import annotations

import argparse
import getpass
from typing import Any

from django.core.management.base import CommandError

from celeriac import conf
from celeriac.ledger import transitions
from celeriac.ledger.rows import Why
from celeriac.models import Job
from celeriac.outcomes import Ref
from celeriac.states import ParkedReason, Status

HELP = "Run a job again that is held for review."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The id and the reason."""
    parser.add_argument("id", help="Task id as the caller has it.")
    parser.add_argument("--reason", required=True, help="Why it may run again; kept in its history.")


def run(options: dict[str, Any], out: Any) -> int:
    """Let it go, unless it has moved meanwhile."""
    job = Job.objects.using(conf.alias()).known_as(options["id"]).with_status().first()
    live = getattr(job, "live", None) if job is not None else None
    if job is None or live is None or (live.status, live.parked_reason) != (Status.PARKED, ParkedReason.REVIEW):
        raise CommandError(
            f"{options['id']!r} isn't held for review. `celeriac trace {options['id']}` says where it is."
        )
    why = Why(getpass.getuser(), options["reason"])
    moved = transitions.shift("released", [Ref(job.seq, live.fence)], why, also="l.parked_reason = 'review'", wait=True)
    if not moved:
        raise CommandError("It has moved meanwhile. Look again.")
    out.write(f"{job} runs again as soon as a slot is free.")
    out.write("Its old run may still be at work: it isn't stopped by this, but its outcome is refused from now on.")
    return 0
