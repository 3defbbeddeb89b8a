"""``trace ID``: the whole story of a job, and why it waits."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandError

from celeriac import conf
from celeriac.models import Job
from celeriac.observe.story import story, why_waiting

HELP = "Tell the story of one job, and why it isn't running yet."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The id."""
    parser.add_argument("id", help="Task id as the caller has it, or the job's number (seq).")


def run(options: dict[str, Any], out: Any) -> int:
    """Print the story."""
    wanted = options["id"]
    jobs = Job.objects.using(conf.alias()).with_status()
    job = jobs.known_as(wanted).first() or (jobs.filter(seq=int(wanted)).first() if wanted.isdigit() else None)
    if job is None:
        raise CommandError(
            f"The ledger has no job {wanted!r}. Was its transaction rolled back, or was it sent by plain Celery?"
        )
    out.write(f"{job.task_type}  {job.public_id}")
    out.write(
        f"status {job.status}   queue {job.queue}   trace {job.trace}" + (f"   biz {job.biz_id}" if job.biz_id else "")
    )
    for entry in story(job):
        by = f"  [{entry.actor}]" if entry.actor else ""
        out.write(f"  {entry.at:%Y-%m-%d %H:%M:%S.%f}  {entry.what:<16} {entry.detail}{by}")
    if job.outcome is None:
        out.write(f"now: {why_waiting(job)}")
    return 0
