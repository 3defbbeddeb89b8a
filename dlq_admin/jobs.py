"""Jobs to look at: where each is, and its story."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from celeriac import conf, ids
from celeriac.models import DeadLetter, Job
from celeriac.observe.story import redactor, story, why_waiting
from dlq_admin.filters import QueueFilter, StatusFilter, TypeFilter
from dlq_admin.letters import failures, flower_link
from dlq_admin.paging import OlderChangeList
from dlq_admin.readonly import NOTHING, Fact, ReadOnlyAdmin, shown, when
from dlq_admin.shown import masked


class JobAdmin(ReadOnlyAdmin):
    """All jobs, the latest first; nothing can be done to them here."""

    lookups = frozenset({"status", "task_type", "queue", "seq__lt"})
    long_texts = ("payload", "result", "error")
    list_display = ("accepted", "type", "where", "badge", "tries", "business")
    list_display_links = ("type",)
    list_filter = (StatusFilter, TypeFilter, QueueFilter)
    search_fields = ("biz_id",)
    search_help_text = _("Task id or business id, in full.")
    ordering = ("-seq",)
    detail_template = "dlq_admin/job.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Jobs with their status, in one statement."""
        found: Any = super().get_queryset(request)
        jobs: QuerySet[Any] = found.with_status()
        return jobs

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[OlderChangeList]:
        """A list that is paged by ``seq``."""
        return OlderChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By ids, which have indexes; nothing else of a table of this size can be searched."""
        wanted = search_term.strip()
        if not wanted:
            return queryset, False
        return queryset.filter(Q(task_id=ids.to_uuid(wanted)[0]) | Q(biz_id=wanted)), False

    @admin.display(description=_("accepted"))
    def accepted(self, job: Job) -> SafeString | str:
        """When."""
        return when(job.created_at)

    @admin.display(description=_("task type"))
    def type(self, job: Job) -> str:
        """What."""
        return job.task_type

    @admin.display(description=_("queue"))
    def where(self, job: Job) -> str:
        """On which queue."""
        return job.queue

    @admin.display(description=_("status"))
    def badge(self, job: Job) -> SafeString:
        """How it stands."""
        status = job.status
        return format_html('<span class="dlq-badge dlq-{}">{}</span>', (status or "broken").lower(), status or "?")

    @admin.display(description=_("attempts"))
    def tries(self, job: Job) -> int:
        """How often it was begun."""
        return _attempts(job)

    @admin.display(description=_("business id"))
    def business(self, job: Job) -> object:
        """What it is about."""
        return shown(job.biz_id, 60) if job.biz_id else NOTHING

    def facts(self, request: HttpRequest, job: Job) -> Iterator[Fact]:
        """What was asked and how it stands."""
        yield Fact(_("Task id"), job.public_id, code=True)
        yield Fact(_("Task type"), job.task_type, code=True)
        yield Fact(_("Status"), job.status or "?")
        yield Fact(_("Queue"), job.queue)
        yield Fact(_("Priority"), job.priority)
        if job.biz_id:
            yield Fact(_("Business id"), shown(job.biz_id))
        yield Fact(_("Attempts"), _attempts(job))
        if suspicion := _suspicion(job):
            lost = ngettext("aboard %(count)d lost worker", "aboard %(count)d lost workers", suspicion)
            yield Fact(_("Suspicion"), lost % {"count": suspicion})
        yield Fact(_("Accepted"), job.created_at)
        if job.ended_at is not None:
            yield Fact(_("Ended"), job.ended_at)
        if job.error:
            yield Fact(_("Last error"), shown(job.error))
        if flower := flower_link(job):
            yield Fact("Flower", _("The job in Flower"), flower)
        if request.user.has_perm("celeriac.view_deadletter"):
            for letter in DeadLetter.objects.using(conf.alias()).filter(job_id=job.pk).order_by("pk")[:20]:
                address = reverse("admin:celeriac_deadletter_change", args=[letter.pk])
                yield Fact(_("Dead letter"), f"{letter.error_code}, {DeadLetter.State(letter.state).label}", address)

    def detail_context(self, request: HttpRequest, job: Job) -> dict[str, Any]:
        """Arguments, story and failures."""
        return {
            "payload": masked(job.payload, redactor()),
            "waiting": why_waiting(job),
            "story": story(job),
            "failures": failures(job),
        }


def _suspicion(job: Job) -> int:
    """With how many workers that were lost it was aboard since it last ended a run."""
    live = getattr(job, "live", None)
    return int(live.suspicion) if live is not None else 0


def _attempts(job: Job) -> int:
    # While a job lives its count is kept in the narrow table.
    live = getattr(job, "live", None)
    return int(live.attempt) if live is not None else job.attempt
