"""Switches and run-time overrides: versioned, with who and why."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Control(models.Model):
    """One override in force, for example ``consume:type:shop.sms`` = false."""

    key = models.CharField(max_length=300, primary_key=True)
    value = models.JSONField()
    version = models.IntegerField(default=1)
    actor = models.CharField(max_length=150, default="")
    reason = models.TextField(default="")
    changed_at = models.DateTimeField()

    class Meta:
        verbose_name = _("switch")
        verbose_name_plural = _("switches")
        permissions = [("switch_consumption", _("Can switch consumption on and off"))]

    def __str__(self) -> str:
        return f"{self.key} = {self.value}"
