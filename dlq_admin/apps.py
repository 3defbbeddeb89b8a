"""The desk as a Django app."""

from django.apps import AppConfig


class DlqAdminConfig(AppConfig):
    """Admin pages over celeriac's models; it has no tables of its own."""

    name = "dlq_admin"
    verbose_name = "Dead letters"
