"""A job that a person must act on."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class DeadLetterQuerySet(models.QuerySet["DeadLetter"]):
    """Questions of the desk."""

    def open(self) -> DeadLetterQuerySet:
        """Letters that wait for a person."""
        return self.filter(state=DeadLetter.State.OPEN)


class DeadLetter(models.Model):
    """One stay of a job in the dead letters. A job that comes back a second time gets a second letter."""

    class State(models.TextChoices):
        """What became of it."""

        OPEN = "open", _("open")
        REDELIVERED = "redelivered", _("sent back")
        IGNORED = "ignored", _("ignored")
        RESOLVED = "resolved", _("resolved")

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey("celeriac.Job", models.CASCADE, db_constraint=False, related_name="dead_letters")
    state = models.CharField(max_length=11, choices=State.choices, default=State.OPEN)
    task_type = models.CharField(max_length=255)
    queue = models.CharField(max_length=128)
    error_code = models.CharField(max_length=64)
    kind = models.CharField(max_length=255, default="")
    message = models.TextField(default="", help_text=_("Redacted."))
    traceback = models.TextField(default="", help_text=_("Redacted."))
    args_repr = models.TextField(default="", help_text=_("Redacted."))
    attempts = models.SmallIntegerField(default=0)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    fence = models.BigIntegerField(
        help_text=_("Of the job when the letter was opened: what a decision is checked against.")
    )
    version = models.IntegerField(
        default=0, help_text=_("Raised by each decision: a page that shows an older one is refused.")
    )

    objects: ClassVar = DeadLetterQuerySet.as_manager()

    class Meta:
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "-id"], name="celeriac_letter_state")]
        constraints = [
            models.UniqueConstraint(fields=["job"], condition=Q(state="open"), name="celeriac_one_open_letter_a_job"),
        ]
        permissions = [
            ("redeliver_deadletter", _("Can send dead letters back as they are")),
            ("edit_deadletter_payload", _("Can change a dead letter's arguments and send it back")),
            ("ignore_deadletter", _("Can ignore dead letters with a reason")),
            ("view_payload", _("Can see unredacted arguments")),
        ]

    def __str__(self) -> str:
        return f"{self.task_type}: {self.error_code}"
