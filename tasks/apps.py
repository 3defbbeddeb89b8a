"""The shop as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Tables and job types of the shop."""

    name = "tasks"
    label = "tasks"
    verbose_name = "Shop"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the job types in every process: checks and the admin know them too, not only workers."""
        from tasks import jobs  # noqa: F401  (imported for its registrations)
