"""Messages that are no job, with their raw bytes."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Quarantined(models.Model):
    """One message set aside. It is kept until a person deletes it; doctor reports it."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    queue = models.CharField(max_length=255, default="")
    reason = models.TextField()
    content_type = models.CharField(max_length=255, default="")
    headers = models.TextField(default="", help_text=_("Redacted."))
    body = models.BinaryField(help_text=_("Raw bytes, bounded by QUARANTINE_BYTES."))
    size = models.BigIntegerField(help_text=_("Bytes of the whole body."))
    worker = models.UUIDField(null=True)

    class Meta:
        verbose_name = _("quarantined message")
        verbose_name_plural = _("quarantined messages")
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.reason
