"""What was asked and how it ended. Written twice: when accepted and when ended."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from celeriac import ids
from celeriac.states import ENDED, LIVE, Status


class JobQuerySet(models.QuerySet["Job"]):
    """Questions about jobs that read as English."""

    def in_status(self, *statuses: Status | str) -> JobQuerySet:
        """Jobs in any of *statuses*. The only way to ask: a status is split over ``Live`` and ``Job.outcome``."""
        wanted = {Status(s) for s in statuses}
        live = [s.value for s in wanted if s in LIVE]
        ended = [s.value for s in wanted if s in ENDED]
        question = Q(pk__in=[])
        if ended:
            question |= Q(outcome__in=ended)
        if live:
            question |= Q(outcome__isnull=True, live__status__in=live)
        return self.filter(question)

    def unfinished(self) -> JobQuerySet:
        """Jobs that somebody still owes a next move."""
        return self.filter(outcome__isnull=True)

    def with_status(self) -> JobQuerySet:
        """Jobs with their ``Live`` row, in one LEFT JOIN, so that ``job.status`` asks no second question."""
        return self.select_related("live")

    def known_as(self, task_id: str) -> JobQuerySet:
        """The job that a caller knows by *task_id*, which need not be a UUID."""
        return self.filter(task_id=ids.to_uuid(task_id)[0])


class Job(models.Model):
    """One job. ``seq`` joins and pages; ``task_id`` is what callers and Celery know."""

    seq = models.BigAutoField(primary_key=True)
    task_id = models.UUIDField(unique=True, help_text=_("Celery's task id, or the uuid5 of a caller's own text id."))
    alias = models.TextField(null=True, help_text=_("A caller's own id as it was given, where it isn't a UUID."))  # noqa: DJ001  absent is NULL: it costs no byte
    task_type = models.CharField(max_length=255)
    queue = models.CharField(max_length=128)
    region = models.CharField(max_length=64, null=True)  # noqa: DJ001
    priority = models.SmallIntegerField(default=0)
    biz_id = models.CharField(max_length=255, null=True)  # noqa: DJ001
    ordering_key = models.CharField(max_length=255, null=True)  # noqa: DJ001
    concurrency_key = models.CharField(max_length=255, null=True)  # noqa: DJ001
    trace_id = models.UUIDField(null=True, help_text=_("NULL: the root's id."))
    root_id = models.UUIDField(null=True, help_text=_("NULL: the job's own id."))
    parent_id = models.UUIDField(null=True)
    group_id = models.UUIDField(null=True)
    payload = models.TextField(help_text=_("JSON in ASCII: args, kwargs, links, chain, chord, headers."))
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, help_text=_("When the run that ended it was claimed."))
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=11, null=True, choices=[(s.value, s.value) for s in ENDED])  # noqa: DJ001
    result = models.TextField(null=True, help_text=_("JSON in ASCII; NULL where results are ignored or there is none."))  # noqa: DJ001
    error_code = models.CharField(max_length=64, null=True)  # noqa: DJ001
    error = models.TextField(null=True, help_text=_("Last failure, as callers get it; redacted wherever it is shown."))  # noqa: DJ001
    attempt = models.SmallIntegerField(default=0)
    retry_count = models.SmallIntegerField(default=0)
    lost_count = models.SmallIntegerField(default=0)
    fence = models.BigIntegerField(default=0, help_text=_("Between lives; while it lives the fence is in Live."))
    worker = models.UUIDField(null=True, help_text=_("Incarnation of the last run."))

    objects: ClassVar = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        indexes = [
            models.Index(fields=["task_type", "seq"], name="celeriac_job_type_seq"),
            models.Index(
                fields=["outcome", "ended_at"], name="celeriac_job_outcome_ended", condition=Q(outcome__isnull=False)
            ),
            models.Index(fields=["biz_id"], name="celeriac_job_biz_id", condition=Q(biz_id__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(
                name="celeriac_job_ended_xor",
                condition=Q(outcome__isnull=True, ended_at__isnull=True)
                | Q(outcome__in=[s.value for s in ENDED], ended_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_type}[{self.public_id}]"

    @property
    def public_id(self) -> str:
        """The id as the caller gave or got it."""
        return self.alias or str(self.task_id)

    @property
    def status(self) -> Status | None:
        """Where the job is. ``None`` only for a broken row (no outcome and no ``Live`` row), which doctor reports."""
        if self.outcome is not None:
            return Status(self.outcome)
        live = getattr(self, "live", None)
        return Status(live.status) if live is not None else None

    @property
    def root(self) -> uuid.UUID:
        """Id of the first job of its tree."""
        return self.root_id or self.task_id

    @property
    def trace(self) -> uuid.UUID:
        """The one id under which the whole story is told."""
        return self.trace_id or self.root_id or self.task_id
