"""What a person fills in before a dead letter moves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from dlq_admin.shown import pretty

#: Letters that one confirmation may move; each is a transaction of its own, and a page has to answer in time.
MOST_AT_ONCE: Final = 500
#: Workers that one confirmation may drain.
MOST_WORKERS: Final = 200


class DecisionForm(forms.Form):
    """A reason, and the version of the letter that the person saw."""

    version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Kept with the decision: the next person will ask."),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off"}),
    )


class ManyForm(forms.Form):
    """One reason for several letters, each with the version that the person saw."""

    letters = forms.CharField(widget=forms.HiddenInput)
    reason = DecisionForm.base_fields["reason"]

    def clean_letters(self) -> dict[int, int]:
        """Version by letter."""
        try:
            pairs = [pair.split(":") for pair in self.cleaned_data["letters"].split(",")]
            seen = {int(letter): int(version) for letter, version in pairs}
        except ValueError as exc:
            raise ValidationError(
                _("The selection can't be read. Select the letters again."), code="unreadable"
            ) from exc
        if len(seen) > MOST_AT_ONCE:
            raise ValidationError(
                _("At most %(most)d letters at once."), code="too_many", params={"most": MOST_AT_ONCE}
            )
        return seen


class WorkersForm(forms.Form):
    """One reason for one or several workers."""

    workers = forms.CharField(widget=forms.HiddenInput)
    reason = DecisionForm.base_fields["reason"]

    @classmethod
    def of(cls, workers: Iterable[uuid.UUID]) -> WorkersForm:
        """The form before it was filled in."""
        return cls(initial={"workers": ",".join(map(str, workers))})

    def clean_workers(self) -> list[uuid.UUID]:
        """Incarnations, each once."""
        try:
            chosen = list(dict.fromkeys(uuid.UUID(text) for text in self.cleaned_data["workers"].split(",")))
        except ValueError as exc:
            raise ValidationError(
                _("The selection can't be read. Select the workers again."), code="unreadable"
            ) from exc
        if len(chosen) > MOST_WORKERS:
            raise ValidationError(
                _("At most %(most)d workers at once."), code="too_many", params={"most": MOST_WORKERS}
            )
        return chosen


class JsonField(forms.CharField):
    """A JSON list or object; gives the value."""

    def __init__(self, kind: type[list[Any]] | type[dict[str, Any]], **options: Any) -> None:
        self.kind = kind
        widget = forms.Textarea(attrs={"rows": 10, "spellcheck": "false", "autocomplete": "off", "class": "dlq-json"})
        super().__init__(widget=widget, strip=True, **options)

    def clean(self, value: Any) -> Any:
        """The value; an error says where the text stops being JSON."""
        text = super().clean(value)
        try:
            found = json.loads(text, object_pairs_hook=_without_repeats)
        except json.JSONDecodeError as exc:
            raise ValidationError(
                _("This is no JSON: %(fault)s in line %(line)d, column %(column)d."),
                code="json",
                params={"fault": exc.msg, "line": exc.lineno, "column": exc.colno},
            ) from exc
        except RecursionError as exc:
            raise ValidationError(_("This is nested too deeply."), code="depth") from exc
        if not isinstance(found, self.kind):
            wanted = _("a JSON list, such as [42]") if self.kind is list else _('a JSON object, such as {"order": 42}')
            raise ValidationError(_("This must be %(wanted)s."), code="kind", params={"wanted": wanted})
        return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        # JSON would silently take the last one.
        raise ValidationError(_("The name “%(name)s” is there twice."), code="twice", params={"name": twice})
    return found


class ArgumentsForm(forms.Form):
    """The arguments of a job as JSON, prefilled with those it has."""

    version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    args = JsonField(list, label=_("Positional arguments (args)"))
    kwargs = JsonField(dict, label=_("Named arguments (kwargs)"))

    @classmethod
    def filled(cls, arguments: dict[str, Any], version: int) -> ArgumentsForm:
        """The form before anything was changed."""
        texts = {name: pretty(value) for name, value in arguments.items()}
        return cls(initial={**texts, "version": version})
