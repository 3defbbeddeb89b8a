"""Order: what a customer bought."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """One product, some quantity, one customer."""

    class Status(models.TextChoices):
        PLACED = "placed"
        RESERVED = "reserved"
        SHIPPED = "shipped"
        FULFILLED = "fulfilled"

    number = models.CharField(max_length=40, unique=True)
    batch = models.ForeignKey("tasks.Batch", on_delete=models.CASCADE, related_name="placed")
    customer = models.ForeignKey("tasks.Customer", on_delete=models.PROTECT, related_name="orders")
    product = models.ForeignKey("tasks.Product", on_delete=models.PROTECT, related_name="orders")
    quantity = models.PositiveSmallIntegerField(default=1)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.PLACED)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.number

    def advance(self, before: Status, after: Status) -> None:
        """Move from *before* to *after*; an order that is already further stays where it is."""
        if type(self).objects.filter(pk=self.pk, status=before).update(status=after):
            self.status = after
