"""The desk as a Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DlqAdminConfig(AppConfig):
    """Admin pages over celeriac's models; it has no tables of its own."""

    name = "dlq_admin"
    verbose_name = _("Dead letters")
