"""The one writer of ``Control``: what people have set at run time, versioned, with who and why."""

from __future__ import annotations

from django.db import transaction

from celeriac import conf
from celeriac.clock import Now
from celeriac.models import Control


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
