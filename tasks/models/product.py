"""Product: what is sold, and how much of it there is."""

from __future__ import annotations

from django.db import models


class Product(models.Model):
    """One article with its stock."""

    sku = models.CharField(max_length=40, unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.sku
