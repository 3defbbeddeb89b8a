"""Filters of the lists. Their choices come from the latest rows: DISTINCT over millions would read them all for each page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from celeriac.models import DeadLetter, Worker
from celeriac.states import Status

if TYPE_CHECKING:
    from django.contrib.admin.filters import _ListFilterChoices

#: How many of the latest rows are looked at for choices.
LATEST: Final = 5000


class _Chosen(admin.SimpleListFilter):
    """A filter that begins with a choice of its own instead of "all"."""

    default: ClassVar[str]
    everything: ClassVar[str] = "all"

    def value(self) -> str:
        """The choice in force; what is no choice is the default."""
        asked = super().value()
        known = {self.everything, *(str(value) for value, _label in self.lookup_choices)}
        return asked if asked in known else self.default

    def choices(self, changelist: ChangeList) -> Iterator[_ListFilterChoices]:
        """All choices as links, everything last."""
        for value, label in [*self.lookup_choices, (self.everything, _("All"))]:
            yield {
                "selected": self.value() == value,
                "query_string": changelist.get_query_string({str(self.parameter_name): value}, remove=["p"]),
                "display": str(label),
            }


class StateFilter(_Chosen):
    """Open letters, unless others are asked for."""

    title = _("state")
    parameter_name = "state"
    default = DeadLetter.State.OPEN.value

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """All states of a letter."""
        return [(value, str(label)) for value, label in DeadLetter.State.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Letters of the state."""
        return queryset if self.value() == self.everything else queryset.filter(state=self.value())


class WorkerStateFilter(_Chosen):
    """Incarnations that live, unless others are asked for."""

    title = _("state")
    parameter_name = "state"
    default = "living"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Living ones, and each state."""
        return [("living", str(_("living"))), *((value, str(label)) for value, label in Worker.State.choices)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Workers of the state."""
        if self.value() == self.everything:
            return queryset
        if self.value() == "living":
            return queryset.filter(ended_at__isnull=True)
        return queryset.filter(state=self.value())


class StatusFilter(admin.SimpleListFilter):
    """Where a job is; the question is split over two tables by ``in_status``."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """All statuses, as the platform writes them everywhere."""
        return [(status.value, status.value) for status in Status]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Jobs in the status."""
        chosen = self.value()
        if chosen not in set(Status):
            return queryset
        # The given queryset is a JobQuerySet; Django's signature knows only its base.
        return queryset.in_status(chosen)  # type: ignore[attr-defined,no-any-return]


class _OfTheLatest(admin.SimpleListFilter):
    """Values of one column among the latest rows, and whichever is chosen."""

    column: ClassVar[str]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The values, sorted."""
        latest = model_admin.get_queryset(request).order_by("-pk").values("pk")[:LATEST]
        rows = model_admin.get_queryset(request).order_by().filter(pk__in=latest).values_list(self.column, flat=True)
        values = set(rows.distinct())
        asked = request.GET.get(str(self.parameter_name))
        if asked:
            values.add(asked)
        return [(value, value) for value in sorted(values)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Rows with the value."""
        value = self.value()
        # PostgreSQL's text holds no NUL: nothing is stored under such a value, and asking would be an error.
        return queryset if not value or "\x00" in value else queryset.filter(**{self.column: value})


class OpenedFilter(admin.DateFieldListFilter):
    """When a letter was opened."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # Django would name it by the column.
        self.title = str(_("date opened"))


class TypeFilter(_OfTheLatest):
    """Task types."""

    title = _("task type")
    parameter_name = column = "task_type"


class CodeFilter(_OfTheLatest):
    """Error codes."""

    title = _("error code")
    parameter_name = column = "error_code"


class QueueFilter(_OfTheLatest):
    """Queues."""

    title = _("queue")
    parameter_name = column = "queue"
