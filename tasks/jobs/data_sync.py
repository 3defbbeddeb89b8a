"""data_sync: copy one record of the partner."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db import transaction

from celeriac import Policy
from tasks.jobs.pace import QUICK
from tasks.jobs.steering import steering
from tasks.models import Effect, SyncedRecord
from tasks.thirdparty import partner


@shared_task(bind=True, queue="data_sync", policy=Policy(max_retries=3, backoff=QUICK, timeout=30))
def data_sync(self: Any, external_id: str, token: str) -> int:
    """Fetch *external_id* with the partner's *token* and keep it; returns the version that is now known."""
    with steering():
        found = partner.record(external_id, token=token, request_id=self.request.id)
    with transaction.atomic():
        known = SyncedRecord.keep(external_id, version=int(found["version"]), body=found["body"])
        Effect.count(self.request.id, "data_sync")
    return known
