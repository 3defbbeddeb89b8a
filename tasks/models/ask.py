"""Ask: a job the shop asked for, written down in the shop's own books."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Ask(models.Model):
    """One job the shop asked for, and how often its effect may happen.

    Written in the transaction that enqueues the job, so the two exist together or not at all. ``allowed`` is
    1 for ordinary jobs and 0 for those that must never act: enqueued in a transaction that was rolled back,
    or called off.
    """

    batch = models.ForeignKey("tasks.Batch", on_delete=models.CASCADE, related_name="asks")
    job_id = models.UUIDField(unique=True)
    kind = models.CharField(max_length=32)
    allowed = models.PositiveSmallIntegerField(default=1)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=models.Q(allowed__lte=1), name="ask_allowed_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.job_id}"
