"""Customer: who orders."""

from __future__ import annotations

from django.db import models


class Customer(models.Model):
    """Who orders, with the personal data that must never leave the database in clear."""

    name = models.CharField(max_length=64, unique=True)
    email = models.EmailField()
    phone = models.CharField(max_length=20)
    loyalty_card = models.CharField(max_length=20)
    points = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.name
