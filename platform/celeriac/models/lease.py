"""Who leads, and in which term."""

from __future__ import annotations

from django.db import models


class Lease(models.Model):
    """One row per role. ``term`` only grows; each term has an advisory lock of its own that its holder's session keeps."""

    name = models.CharField(max_length=64, primary_key=True)
    term = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=255, default="")
    renewed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}, term {self.term}"
