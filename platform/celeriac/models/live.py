"""Where an unfinished job is. Narrow and hot: inserted at acceptance, deleted at the end."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from celeriac.clock import Now
from celeriac.states import LIVE, WAITING, ParkedReason, Status

#: Dispatch order of a rescued job: before every priority a caller can ask for.
RESCUED_PRIORITY = 10


class LiveQuerySet(models.QuerySet["Live"]):
    """Questions the scheduler and the desk ask."""

    def waiting(self) -> LiveQuerySet:
        """PENDING or RETRY."""
        return self.filter(status__in=[s.value for s in WAITING])

    def due(self) -> LiveQuerySet:
        """Waiting and due by the ledger's clock."""
        return self.waiting().filter(run_at__lte=Now())

    def running(self) -> LiveQuerySet:
        """Claimed by a worker."""
        return self.filter(status=Status.RUNNING.value)

    def dispatched(self) -> LiveQuerySet:
        """In the broker, or on its way there."""
        return self.filter(status=Status.DISPATCHED.value)

    def parked(self, reason: ParkedReason | None = None) -> LiveQuerySet:
        """Held, for *reason* (any when absent)."""
        held = self.filter(status=Status.PARKED.value)
        return held if reason is None else held.filter(parked_reason=reason.value)


class Live(models.Model):
    """One unfinished job.

    The foreign key has no database constraint: both rows are written and removed by one statement of one writer, and the
    trigger would cost every enqueue a row lock. Doctor checks that they go in pairs.
    """

    job = models.OneToOneField(
        "celeriac.Job", models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="live"
    )
    status = models.CharField(max_length=10, choices=[(s.value, s.value) for s in LIVE])
    queue = models.CharField(max_length=128)
    task_type = models.CharField(max_length=255)
    priority = models.SmallIntegerField(default=0, help_text=_("As it is dispatched; 10 is a rescued job."))
    run_at = models.DateTimeField(help_text=_("When it is due."))
    expires_at = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    attempt = models.SmallIntegerField(default=0)
    retry_count = models.SmallIntegerField(default=0)
    lost_count = models.SmallIntegerField(default=0)
    suspicion = models.SmallIntegerField(
        db_default=0,
        help_text=_("How many whole workers were lost with it aboard since it last ended a run. Above 0: a suspect."),
    )
    sent_count = models.SmallIntegerField(default=0, help_text=_("How often this dispatch was sent."))
    time_limit = models.FloatField(null=True, help_text=_("Hard limit in seconds that the call asked for."))
    worker = models.UUIDField(null=True)
    child_pid = models.IntegerField(null=True)
    dispatched_at = models.DateTimeField(null=True)
    claimed_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    dispatch_term = models.BigIntegerField(null=True)
    parked_reason = models.CharField(max_length=16, null=True, choices=[(r.value, r.value) for r in ParkedReason])  # noqa: DJ001
    since = models.DateTimeField(help_text=_("When it came into this status."))

    objects: ClassVar = LiveQuerySet.as_manager()

    class Meta:
        verbose_name = _("unfinished job")
        verbose_name_plural = _("unfinished jobs")
        indexes = [
            # Priority first and falling: the scheduler reads each queue from its head; run_at then bounds what is due.
            models.Index(
                fields=["queue", "-priority", "run_at"],
                name="celeriac_live_waiting",
                condition=Q(status__in=[s.value for s in WAITING]),
            ),
            models.Index(
                fields=["queue", "dispatched_at"], name="celeriac_live_dispatched", condition=Q(status="DISPATCHED")
            ),
            models.Index(fields=["worker"], name="celeriac_live_running", condition=Q(status="RUNNING")),
            models.Index(
                fields=["parked_reason", "task_type"], name="celeriac_live_parked", condition=Q(status="PARKED")
            ),
            models.Index(fields=["queue"], name="celeriac_live_suspects", condition=Q(suspicion__gt=0)),
            models.Index(fields=["expires_at"], name="celeriac_live_expires", condition=Q(expires_at__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(name="celeriac_live_status", condition=Q(status__in=[s.value for s in LIVE])),
            models.CheckConstraint(
                name="celeriac_live_running_has_worker",
                condition=~Q(status="RUNNING") | Q(worker__isnull=False, claimed_at__isnull=False),
            ),
            models.CheckConstraint(
                name="celeriac_live_parked_has_reason",
                condition=~Q(status="PARKED") | Q(parked_reason__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_type} {self.status} under fence {self.fence}"
