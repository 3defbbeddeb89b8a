"""Who leads and in which term, and which schedulers stand ready."""

from __future__ import annotations

from django.db import models

LEADER = "scheduler"
SEAT = "seat-"


class Lease(models.Model):
    """One row per role. ``term`` only grows; its holder's session keeps an advisory lock as witness.

    * ``scheduler``: the leader's, with a lock of its own for each term.
    * ``seat-1``, ``seat-2``, ...: one for each scheduler process that stands ready, the leader included. Seats 1 and 2 are filled by
      embedded schedulers; ``renewed_at`` says when its loop made a pass.
    """

    name = models.CharField(max_length=64, primary_key=True)
    term = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=255, default="")
    renewed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}, term {self.term}"
