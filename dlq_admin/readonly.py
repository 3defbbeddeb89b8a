"""What all pages over the ledger share: nobody adds, edits or deletes rows here, and everything is masked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from celeriac import conf
from celeriac.observe.story import redactor

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a detail page. ``link``: where the value leads; ``code``: shown as it is, in a fixed pitch."""

    label: _StrOrPromise
    value: object
    link: str = ""
    code: bool = False

    @property
    def is_time(self) -> bool:
        """Whether the value is a moment, which pages show in the reader's time zone."""
        return isinstance(self.value, datetime)


class ReadOnlyAdmin(_ModelAdmin):
    """A list with filters and a page of facts. Subclasses say which."""

    #: Query parameters that a list understands. Django would allow every lookup on the model's own columns, with which one could ask
    #: "does the payload contain …" character by character without ever being shown a payload.
    lookups: ClassVar[frozenset[str]] = frozenset()
    #: Columns that a list doesn't load.
    long_texts: ClassVar[tuple[str, ...]] = ()

    actions: Any = None
    list_per_page = 50
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    change_list_template = "dlq_admin/change_list.html"
    detail_template = "dlq_admin/detail.html"

    class Media:
        css: ClassVar = {"all": ["dlq_admin/desk.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody: rows come from the platform."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody: states have one writer, and it isn't a form."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody: what happened stays."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Rows of the ledger's database, without what lists don't show."""
        return super().get_queryset(request).using(conf.alias()).defer(*self.long_texts)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The whole row, ``None`` where there is none."""
        try:
            key = self.opts.pk.to_python(object_id)
        except ValidationError:
            return None
        # PostgreSQL's text holds no NUL, and refuses even to be asked.
        if isinstance(key, str) and "\x00" in key:
            return None
        return self.get_queryset(request).defer(None).filter(pk=key).first()

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Only what the list's own filters ask."""
        return lookup in self.lookups

    def title(self, obj: Any) -> str:
        """What the detail page is called."""
        return shown(obj)

    def facts(self, request: HttpRequest, obj: Any) -> Iterator[Fact]:
        """The lines of the detail page."""
        raise NotImplementedError

    def detail_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """What the detail template needs beside the facts."""
        return {}

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The detail page. Unlike Django's it is no form, so that nothing can be posted to it."""
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        obj = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, obj):
            raise PermissionDenied
        if obj is None:
            raise Http404
        context = {
            "deletable": self.has_delete_permission(request, obj),
            "facts": list(self.facts(request, obj)),
            **self.detail_context(request, obj),
            **(extra_context or {}),
        }
        return self.page(request, self.detail_template, self.title(obj), obj, context)

    def page(
        self, request: HttpRequest, template: str, title: object, obj: Any, context: dict[str, Any]
    ) -> TemplateResponse:
        """A page of the admin about *obj* (``None``: about several)."""
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            template,
            {
                **self.admin_site.each_context(request),
                "title": title,
                "opts": self.opts,
                "original": obj,
                "media": self.media,
                **context,
            },
        )


def shown(value: object, limit: int | None = None) -> str:
    """*value* as masked text, cut to *limit* characters."""
    masked = redactor().text(str(value))
    if limit is not None and len(masked) > limit:
        return masked[: limit - 1].rstrip() + "…"
    return masked


def when(at: datetime | None) -> SafeString | str:
    """A moment as narrow columns show it, in the reader's time zone."""
    if at is None:
        return ""
    local = timezone.localtime(at) if timezone.is_aware(at) else at
    return format_html('<time datetime="{}">{}</time>', local.isoformat(), local.strftime("%Y-%m-%d %H:%M:%S"))


def code(error_code: str) -> SafeString:
    """An error code that may be broken at its underscores."""
    words = format_html_join(mark_safe("_<wbr>"), "{}", ((word,) for word in error_code.split("_")))
    return format_html('<code class="dlq-code">{}</code>', words)


NOTHING = "–"
