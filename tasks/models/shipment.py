"""Shipment: a parcel handed to the carrier."""

from __future__ import annotations

from django.db import models


class Shipment(models.Model):
    """The carrier's parcel for an order."""

    order = models.OneToOneField("tasks.Order", on_delete=models.CASCADE, related_name="shipment")
    tracking_number = models.CharField(max_length=40)
    booked_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.tracking_number
