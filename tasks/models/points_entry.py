"""PointsEntry: one line of a customer's loyalty account."""

from __future__ import annotations

from django.db import models


class PointsEntry(models.Model):
    """Points for one order, credited once."""

    order = models.OneToOneField("tasks.Order", on_delete=models.CASCADE, related_name="points_entry")
    customer = models.ForeignKey("tasks.Customer", on_delete=models.CASCADE, related_name="points_entries")
    points = models.PositiveIntegerField()
    credited_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.points} points for {self.order_id}"
