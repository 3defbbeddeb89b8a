"""The one question the demo asks of the platform's books."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from celeriac import Job
from celeriac.states import Status

HOLDS = (Status.DEAD_LETTER, Status.PARKED, Status.CANCELLED)


def held(job_ids: Collection[UUID]) -> set[UUID]:
    """Those of *job_ids* that didn't act and won't by themselves: somebody holds them or called them off."""
    return set(Job.objects.in_status(*HOLDS).filter(task_id__in=list(job_ids)).values_list("task_id", flat=True))
