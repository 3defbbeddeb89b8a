"""Effect: what a job did, counted where the platform has no say."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.db import models, transaction


class Effect(models.Model):
    """How many executions of a job ran to their end.

    ``acted`` grows with every such execution, also when the domain's natural keys made the second one
    harmless: a job that ran twice shows here. Attempts that failed on the way don't count, a retry is not a
    duplicate.
    """

    job_id = models.UUIDField()
    kind = models.CharField(max_length=32)
    acted = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job_id", "kind"], name="effect_once_per_job_and_kind")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.job_id} x{self.acted}"

    @classmethod
    def count(cls, job_id: str | UUID, kind: str) -> None:
        """Record that one more execution of *job_id* has acted.

        Call it last, with the domain's writes where there are any.
        """
        with transaction.atomic():
            effect, first = cls.objects.get_or_create(job_id=job_id, kind=kind)
            if not first:
                cls.objects.filter(pk=effect.pk).update(acted=models.F("acted") + 1)
