"""One row per failed attempt, in the same transaction as the move that it explains."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class ErrorEvent(models.Model):
    """What failed, as code, redacted message and fingerprint."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey("celeriac.Job", models.CASCADE, db_constraint=False, related_name="error_events")
    task_type = models.CharField(max_length=255)
    step_name = models.CharField(max_length=128, default="")
    error_code = models.CharField(max_length=64)
    kind = models.CharField(max_length=255, help_text=_("Class of the exception."))
    message = models.TextField(default="", help_text=_("Redacted."))
    traceback = models.TextField(default="", help_text=_("Redacted."))
    stack_trace_hash = models.CharField(max_length=64, default="")
    occurred_at = models.DateTimeField()
    attempt = models.SmallIntegerField(default=0)
    retry_count = models.SmallIntegerField(default=0)
    biz_context = models.JSONField(default=dict, blank=True)
    worker = models.UUIDField(null=True)

    class Meta:
        verbose_name = _("error event")
        verbose_name_plural = _("error events")
        ordering = ["id"]
        indexes = [models.Index(fields=["error_code", "occurred_at"], name="celeriac_error_code_at")]

    def __str__(self) -> str:
        return f"{self.error_code} in {self.task_type}"
