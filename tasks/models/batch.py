"""Batch: one call of ``tasks.demo.orders.place``."""

from __future__ import annotations

from django.db import models


class Batch(models.Model):
    """One run of the demo's till. Its number keeps order numbers unique when the same seed is used again."""

    seed = models.BigIntegerField()
    orders = models.PositiveIntegerField()
    placed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"batch-{self.pk} (seed {self.seed})"
