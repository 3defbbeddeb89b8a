"""One row per incarnation of a worker: a UUID, not a host name. A restarted worker is another row."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class WorkerQuerySet(models.QuerySet["Worker"]):
    """Questions about the fleet."""

    def alive(self) -> WorkerQuerySet:
        """Incarnations that nobody has given up and that haven't said good-bye."""
        return self.filter(ended_at__isnull=True)


class Worker(models.Model):
    """One life of one worker process tree."""

    class State(models.TextChoices):
        """How it is doing."""

        STARTING = "starting", _("starting")
        ALIVE = "alive", _("alive")
        DEAF = "deaf", _("deaf")
        WEDGED = "wedged", _("wedged")
        DRAINING = "draining", _("draining")
        STOPPING = "stopping", _("stopping")
        STOPPED = "stopped", _("stopped")
        GONE = "gone", _("gone")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    hostname = models.CharField(max_length=255, help_text=_("Celery's node name; several incarnations may share it."))
    host = models.CharField(max_length=255, db_default="", help_text=_("The machine, as it calls itself."))
    pid = models.IntegerField()
    pool = models.CharField(max_length=32)
    queues = models.JSONField(default=list)
    tasks = models.JSONField(default=list, help_text=_("Task types it has registered."))
    slots = models.IntegerField(default=1)
    held = models.IntegerField(default=0, help_text=_("Messages taken from the broker and not yet claimed."))
    free = models.IntegerField(db_default=0, help_text=_("Slots without a pool call, as of the last beat."))
    rss = models.BigIntegerField(
        null=True, help_text=_("Resident memory of its processes in bytes, as of the last beat.")
    )
    refused = models.IntegerField(
        db_default=0, help_text=_("Outcomes that came after their job had been taken from it.")
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.ALIVE)
    drain = models.BooleanField(
        db_default=False, help_text=_("It is to take nothing new and to end: read with each beat.")
    )
    versions = models.JSONField(default=dict)
    lock_key = models.BigIntegerField(help_text=_("Second key of the advisory lock that its witness session holds."))
    witnessed = models.BooleanField(
        default=True, help_text=_("False: no direct session was possible; beats alone decide.")
    )
    started_at = models.DateTimeField()
    beat_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    verdict = models.TextField(default="", blank=True, help_text=_("Why it was given up, with both readings."))

    suspects = models.IntegerField(null=True, help_text=_("Suspects aboard when it was given up."))

    objects: ClassVar = WorkerQuerySet.as_manager()

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        permissions = [("drain_worker", _("Can drain and resume workers"))]
        # Not on beat_at: a beat would have to write the index, twice a second.
        indexes = [
            models.Index(fields=["started_at"], name="celeriac_worker_alive", condition=Q(ended_at__isnull=True))
        ]

    def __str__(self) -> str:
        return f"{self.hostname} ({self.state})"
