"""The desk: the list of dead letters, one letter's page, and the addresses of the decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters

from celeriac import conf, ids
from celeriac.models import DeadLetter, ErrorEvent, Job, TriageDecision
from celeriac.observe.story import MOST, redactor, story, why_waiting
from dlq_admin import decide
from dlq_admin.filters import CodeFilter, OpenedFilter, QueueFilter, StateFilter, TypeFilter
from dlq_admin.paging import BoundedChangeList, BoundedPaginator
from dlq_admin.readonly import Fact, ReadOnlyAdmin, code, shown, when
from dlq_admin.shown import masked
from dlq_admin.ways import IGNORE, RUN_AGAIN, VIEW_PAYLOAD, WAYS, Way, may_edit


def _bulk(way: Way) -> Callable[[ReadOnlyAdmin, HttpRequest, QuerySet[DeadLetter]], HttpResponse | None]:
    @admin.action(description=way.button, permissions=[way.name.replace("-", "_")])
    def action(desk: ReadOnlyAdmin, request: HttpRequest, selected: QuerySet[DeadLetter]) -> HttpResponse | None:
        return decide.ask_many(desk, request, selected, way)

    action.__name__ = way.name.replace("-", "_")
    return action


class DeadLetterAdmin(ReadOnlyAdmin):
    """Dead letters, the open ones first of all."""

    lookups = frozenset({"state", "task_type", "error_code", "queue", "opened_at__gte", "opened_at__lt"})
    long_texts = ("message", "traceback", "args_repr")
    list_display = ("opened", "type", "code", "what", "tries", "badge")
    list_display_links = ("type",)
    list_filter = (StateFilter, TypeFilter, CodeFilter, QueueFilter, ("opened_at", OpenedFilter))
    search_fields = ("message",)
    search_help_text = _("Task id or business id in full, or a part of the error's text.")
    ordering = ("-pk",)
    paginator = BoundedPaginator
    actions = [_bulk(RUN_AGAIN), _bulk(IGNORE)]
    detail_template = "dlq_admin/letter.html"

    # ---- list ----

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Letters with the beginning of their message, cut where it is stored."""
        found: QuerySet[Any] = super().get_queryset(request).annotate(head=Left("message", 300))
        return found

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[BoundedChangeList]:
        """A list that doesn't count millions."""
        return BoundedChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By the job's task id or business id in full, or by a part of the error's class or message."""
        wanted = search_term.strip()
        if not wanted:
            return queryset, False
        task_id, _alias = ids.to_uuid(wanted)
        jobs = Job.objects.using(conf.alias()).filter(Q(task_id=task_id) | Q(biz_id=wanted)).order_by().values("pk")
        return queryset.filter(Q(job__in=jobs) | Q(message__icontains=wanted) | Q(kind__icontains=wanted)), False

    def has_run_again_permission(self, request: HttpRequest) -> bool:
        """For the action of that name."""
        return RUN_AGAIN.allowed(request)

    def has_ignore_permission(self, request: HttpRequest) -> bool:
        """For the action of that name."""
        return IGNORE.allowed(request)

    @admin.display(description=_("opened"))
    def opened(self, letter: DeadLetter) -> SafeString | str:
        """When."""
        return when(letter.opened_at)

    @admin.display(description=_("task type"))
    def type(self, letter: DeadLetter) -> str:
        """What."""
        return letter.task_type

    @admin.display(description=_("error code"))
    def code(self, letter: DeadLetter) -> SafeString:
        """Why, in one word."""
        return code(letter.error_code)

    @admin.display(description=_("message"))
    def what(self, letter: Any) -> SafeString:
        """Why, cut short."""
        return format_html('<span class="dlq-cut">{}</span>', shown(letter.head, 120))

    @admin.display(description=_("attempts"))
    def tries(self, letter: DeadLetter) -> int:
        """How often."""
        return letter.attempts

    @admin.display(description=_("state"))
    def badge(self, letter: DeadLetter) -> SafeString:
        """What became of it."""
        return format_html(
            '<span class="dlq-badge dlq-{}">{}</span>', letter.state, DeadLetter.State(letter.state).label
        )

    # ---- one letter ----

    def facts(self, request: HttpRequest, letter: DeadLetter) -> Iterator[Fact]:
        """What the letter is about."""
        job = letter.job
        may_see_job = request.user.has_perm("celeriac.view_job")
        yield Fact(_("Task type"), letter.task_type, code=True)
        yield Fact(
            _("Job"),
            job.public_id,
            reverse("admin:celeriac_job_change", args=[job.pk]) if may_see_job else "",
            code=True,
        )
        if job.biz_id:
            yield Fact(_("Business id"), shown(job.biz_id))
        yield Fact(_("Queue"), letter.queue)
        yield Fact(_("Attempts"), letter.attempts)
        yield Fact(_("Opened"), letter.opened_at)
        if letter.closed_at is not None:
            yield Fact(_("Closed"), letter.closed_at)
        if flower := flower_link(job):
            yield Fact("Flower", _("The job in Flower"), flower)

    def detail_context(self, request: HttpRequest, letter: DeadLetter) -> dict[str, Any]:
        """The error, the arguments, the job's story and the ways out."""
        using, job = conf.alias(), letter.job
        is_open = letter.state == DeadLetter.State.OPEN
        others = DeadLetter.objects.using(using).filter(job_id=letter.job_id).exclude(pk=letter.pk).order_by("pk")
        return {
            "letter": letter,
            "state": DeadLetter.State(letter.state).label,
            "message": shown(letter.message),
            "traceback": shown(letter.traceback),
            "payload": masked(job.payload, redactor()),
            "args_repr": shown(letter.args_repr),
            "may_see_payload": request.user.has_perm(VIEW_PAYLOAD),
            "may_edit": is_open and may_edit(request),
            "ways": [way for way in WAYS.values() if way.allowed(request)] if is_open else [],
            "status": job.status,
            "waiting": why_waiting(job),
            "story": story(job),
            "failures": failures(job),
            "decisions": [
                (decision, TriageDecision.Action(decision.action).label, shown(decision.reason), shown(decision.change))
                for decision in letter.decisions.using(using).order_by("pk")
            ],
            "others": others.only("pk", "opened_at", "state", "error_code", "task_type")[:20],
        }

    # ---- addresses ----

    def get_urls(self) -> list[URLPattern]:
        """Those of the decisions, before Django's own."""

        def ours(address: str, view: Callable[..., HttpResponse], name: str) -> URLPattern:
            # admin_view sends strangers to the log-in page and has POSTs carry a CSRF token.
            return path(address, self.admin_site.admin_view(view), name=f"celeriac_deadletter_{name}")

        # What is entered there doesn't go into the report of an error.
        without_arguments = sensitive_post_parameters("args", "kwargs")
        return [
            ours("many/<str:way>/", partial(decide.many, self), "many"),
            ours("<path:object_id>/decide/<str:way>/", partial(decide.one, self), "decide"),
            ours("<path:object_id>/edit/", without_arguments(partial(decide.edit, self)), "edit"),
            ours("<path:object_id>/payload/", partial(decide.payload, self), "payload"),
            *super().get_urls(),
        ]


def failures(job: Job) -> list[tuple[ErrorEvent, str, str]]:
    """Each failed attempt with its message and traceback masked, first to last; the latest 500 of them."""
    latest = ErrorEvent.objects.using(conf.alias()).filter(job_id=job.pk).order_by("-pk")[:MOST]
    return [(event, shown(event.message), shown(event.traceback)) for event in reversed(latest)]


def flower_link(job: Job) -> str:
    """The job's page in Flower; empty where no Flower is configured."""
    base = str(conf.get("FLOWER_URL")).rstrip("/")
    return f"{base}/task/{quote(job.public_id, safe='')}" if base else ""
