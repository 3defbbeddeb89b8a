"""SyncedRecord: a copy of a partner's record."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now


class SyncedRecord(models.Model):
    """The latest known state of one record of the partner."""

    external_id = models.CharField(max_length=64, unique=True)
    version = models.PositiveIntegerField()
    body = models.JSONField()
    synced_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.external_id} v{self.version}"

    @classmethod
    def keep(cls, external_id: str, *, version: int, body: dict[str, Any]) -> int:
        """Store *version* unless a newer one is known: answers overtake each other.

        Returns the version now known.
        """
        record, first = cls.objects.get_or_create(external_id=external_id, defaults={"version": version, "body": body})
        if not first and record.version < version:
            # Guarded again in the statement: a newer version may have been stored since the read.
            cls.objects.filter(pk=record.pk, version__lt=version).update(version=version, body=body, synced_at=Now())
        return max(record.version, version)
