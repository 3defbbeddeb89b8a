"""Notice: what a customer was told about an order."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Notice(models.Model):
    """One message to a customer: at most one per order and channel."""

    class Channel(models.TextChoices):
        SMS = "sms"
        EMAIL = "email"
        DISPATCH = "dispatch"

    order = models.ForeignKey("tasks.Order", on_delete=models.CASCADE, related_name="notices")
    channel = models.CharField(max_length=16, choices=Channel.choices)
    reference = models.CharField(max_length=64)
    sent_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["order", "channel"], name="notice_once_per_channel")]

    def __str__(self) -> str:
        return f"{self.channel} for {self.order_id}"
