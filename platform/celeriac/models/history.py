"""One row per exceptional move. The happy path is told by timestamps."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class History(models.Model):
    """Who moved a job, when, from where to where, and why."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey("celeriac.Job", models.CASCADE, db_constraint=False, related_name="history")
    at = models.DateTimeField()
    event = models.CharField(
        max_length=32, help_text=_("Name of the arrow in states.ARROWS, or sent_again, outcome_refused, propagated.")
    )
    source = models.CharField(max_length=11, null=True)  # noqa: DJ001
    target = models.CharField(max_length=11, null=True)  # noqa: DJ001
    fence = models.BigIntegerField(null=True)
    attempt = models.SmallIntegerField(null=True)
    reason = models.TextField(default="")
    actor = models.CharField(max_length=150, default="", help_text=_("User, scheduler term, or worker."))
    worker = models.UUIDField(null=True)

    class Meta:
        verbose_name = _("history entry")
        verbose_name_plural = _("history")
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.event}: {self.source} → {self.target}"
