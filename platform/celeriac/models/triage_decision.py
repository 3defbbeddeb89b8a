"""What a person decided about a dead letter."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class TriageDecision(models.Model):
    """Who did what, when and why; never changed afterwards."""

    class Action(models.TextChoices):
        """The ways out."""

        RUN_AGAIN = "run_again", _("run again as it is")
        EDIT = "edit", _("edit and send back")
        IGNORE = "ignore", _("ignore")

    id = models.BigAutoField(primary_key=True)
    dead_letter = models.ForeignKey("celeriac.DeadLetter", models.CASCADE, related_name="decisions")
    action = models.CharField(max_length=16, choices=Action.choices)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    actor = models.CharField(max_length=150, help_text=_("The user's name as it was then."))
    at = models.DateTimeField()
    reason = models.TextField()
    change = models.TextField(default="", blank=True, help_text=_("What was changed, redacted."))

    class Meta:
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.action} by {self.actor}"
