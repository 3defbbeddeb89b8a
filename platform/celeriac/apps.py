"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CeleriacConfig(AppConfig):
    """Registers checks; imports neither Celery nor the broker."""

    name = "celeriac"
    label = "celeriac"
    verbose_name = _("Celeriac")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from celeriac import checks  # noqa: F401  (registers itself; importing it earlier would need a configured Django)
