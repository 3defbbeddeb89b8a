"""The one writer of ``Control``: what people have set at run time, versioned, with who and why."""

from __future__ import annotations

from typing import Final

from django.db import transaction

from celeriac import conf
from celeriac.clock import Now
from celeriac.models import Control

RATE: Final = "rate:type:"


def rates() -> dict[str, str]:
    """Rate limits of task types that were set at run time, as Celery writes them ("10/m"; "" or "0" is none)."""
    rows = Control.objects.using(conf.alias()).filter(key__startswith=RATE).values_list("key", "value")
    return {key.removeprefix(RATE): str(value) for key, value in rows}


def put(key: str, value: object, *, actor: str, reason: str) -> Control:
    """Set *key* to *value*. Returns the row with its new version."""
    using = conf.alias()
    with transaction.atomic(using=using):
        row, created = Control.objects.using(using).select_for_update().get_or_create(
            key=key, defaults={"value": value, "actor": actor, "reason": reason, "changed_at": Now()}
        )  # fmt: skip
        if not created:
            row.value, row.actor, row.reason, row.changed_at = value, actor, reason, Now()
            row.version += 1
            row.save(using=using)
    return row
