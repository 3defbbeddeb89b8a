"""Reservation: stock set aside for an order."""

from __future__ import annotations

from django.db import models


class Reservation(models.Model):
    """Stock set aside, once per order."""

    order = models.OneToOneField("tasks.Order", on_delete=models.CASCADE, related_name="reservation")
    product = models.ForeignKey("tasks.Product", on_delete=models.PROTECT, related_name="reservations")
    quantity = models.PositiveSmallIntegerField()

    def __str__(self) -> str:
        return f"{self.quantity} of {self.product_id} for {self.order_id}"
