"""Workers, switches and quarantined messages to look at, so that nobody on call needs a database shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from celeriac import text
from celeriac.guard import drains
from celeriac.models import Control, Quarantined, Worker
from dlq_admin import drain
from dlq_admin.filters import WorkerStateFilter
from dlq_admin.paging import BoundedChangeList, BoundedPaginator
from dlq_admin.readonly import NOTHING, Fact, ReadOnlyAdmin, shown, when
from dlq_admin.ways import VIEW_PAYLOAD

_BYTES_SHOWN: Final = 4000


def _bulk(turn: drain.Turn) -> Callable[[ReadOnlyAdmin, HttpRequest, QuerySet[Worker]], HttpResponse | None]:
    @admin.action(description=turn.button, permissions=["drain"])
    def action(desk: ReadOnlyAdmin, request: HttpRequest, selected: QuerySet[Worker]) -> HttpResponse | None:
        return drain.ask(desk, request, selected, turn)

    action.__name__ = turn.name
    return action


class WorkerAdmin(ReadOnlyAdmin):
    """Incarnations of workers, the living first of all."""

    lookups = frozenset({"state"})
    list_display = ("node", "badge", "consumes", "room", "memory", "late", "beat")
    list_display_links = ("node",)
    list_filter = (WorkerStateFilter,)
    ordering = ("-started_at", "pk")
    paginator = BoundedPaginator
    actions = [_bulk(drain.DRAIN), _bulk(drain.RESUME)]
    detail_template = "dlq_admin/worker.html"

    def get_urls(self) -> list[URLPattern]:
        """That of the confirmation, before Django's own."""
        confirm = self.admin_site.admin_view(partial(drain.view, self))
        return [path("turn/<str:turn>/", confirm, name="celeriac_worker_turn"), *super().get_urls()]

    def has_drain_permission(self, request: HttpRequest) -> bool:
        """For the actions."""
        return drain.allowed(request)

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[BoundedChangeList]:
        """Incarnations of years add up."""
        return BoundedChangeList

    @admin.display(description=_("node"))
    def node(self, worker: Worker) -> SafeString | str:
        """Its name in Celery, and the machine where the name doesn't say it."""
        if not worker.host or worker.hostname.endswith(f"@{worker.host}"):
            return worker.hostname
        return format_html('{} <span class="quiet">{}</span>', worker.hostname, worker.host)

    @admin.display(description=_("state"))
    def badge(self, worker: Worker) -> SafeString:
        """How it does."""
        return format_html('<span class="dlq-badge dlq-{}">{}</span>', worker.state, Worker.State(worker.state).label)

    @admin.display(description=_("queues"))
    def consumes(self, worker: Worker) -> object:
        """What it consumes."""
        return ", ".join(worker.queues) or NOTHING

    @admin.display(description=_("slots"))
    def room(self, worker: Worker) -> str:
        """How many jobs it runs at once, and how many more it would take."""
        return gettext("%(free)d of %(slots)d free") % {"free": worker.free, "slots": worker.slots}

    @admin.display(description=_("memory"))
    def memory(self, worker: Worker) -> str:
        """Of all its processes."""
        return _memory(worker)

    @admin.display(description=_("late"))
    def late(self, worker: Worker) -> str:
        """How often it came too late."""
        return gettext("%(count)d refused") % {"count": worker.refused} if worker.refused else NOTHING

    @admin.display(description=_("last beat"))
    def beat(self, worker: Worker) -> SafeString | str:
        """When it was last heard of."""
        return when(worker.beat_at)

    def title(self, worker: Worker) -> str:
        """Its name as it is: masked, ``sms@host.example`` is an e-mail address."""
        return worker.hostname

    def facts(self, request: HttpRequest, worker: Worker) -> Iterator[Fact]:
        """All that its row says."""
        yield Fact(_("Node"), worker.hostname)
        yield Fact(_("Incarnation"), worker.pk, code=True)
        yield Fact(_("State"), Worker.State(worker.state).label)
        if worker.verdict:
            yield Fact(_("Verdict"), shown(worker.verdict))
        yield Fact(_("Queues"), ", ".join(worker.queues) or NOTHING)
        yield Fact(_("Slots"), worker.slots)
        yield Fact(_("Free slots"), worker.free)
        yield Fact(_("Messages held"), worker.held)
        yield Fact(_("Pool"), worker.pool)
        yield Fact(_("Machine"), worker.host or NOTHING)
        yield Fact(_("Process"), worker.pid)
        yield Fact(_("Memory of its processes"), _memory(worker))
        yield Fact(_("Late outcomes refused"), worker.refused)
        if worker.suspects is not None:
            yield Fact(_("Suspects aboard when it was given up"), worker.suspects)
        yield Fact(_("Direct session"), _("yes") if worker.witnessed else _("no: its beats alone decide"))
        yield Fact(
            _("Versions"),
            ", ".join(f"{name} {version}" for name, version in sorted(worker.versions.items())) or NOTHING,
        )
        yield Fact(_("Started"), worker.started_at)
        yield Fact(_("Last beat"), worker.beat_at)
        if worker.ended_at is not None:
            yield Fact(_("Ended"), worker.ended_at)
        yield Fact(_("Task types"), ", ".join(sorted(worker.tasks)) or NOTHING)

    def detail_context(self, request: HttpRequest, worker: Worker) -> dict[str, Any]:
        """Whether it was told to drain, and what it can be told now."""
        if worker.ended_at is not None:
            return {}
        told = drains.asked([worker.pk]).get(worker.pk)
        turn = drain.DRAIN if told is None else drain.RESUME
        return {
            "told": told,
            "told_reason": shown(told.reason) if told is not None else "",
            "turn": turn if drain.allowed(request) else None,
        }


class QuarantinedAdmin(ReadOnlyAdmin):
    """Messages that are no job. Whoever has looked at one may delete it, with Django's own permission for that."""

    list_display = ("arrived", "why", "where", "bytes")
    list_display_links = ("why",)
    ordering = ("-pk",)
    paginator = BoundedPaginator
    # Not None: that would switch off "delete selected" as well, which Django offers to whoever may delete.
    actions = ()
    long_texts = ("body", "headers")

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[BoundedChangeList]:
        """A misdirected producer can send millions."""
        return BoundedChangeList

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Those who were given it."""
        return request.user.has_perm("celeriac.delete_quarantined")

    @admin.display(description=_("arrived"))
    def arrived(self, message: Quarantined) -> SafeString | str:
        """When."""
        return when(message.at)

    @admin.display(description=_("reason"))
    def why(self, message: Quarantined) -> str:
        """What is wrong with it."""
        return shown(message.reason, 160)

    @admin.display(description=_("queue"))
    def where(self, message: Quarantined) -> str:
        """From which queue of the broker."""
        return message.queue

    @admin.display(description=_("bytes"))
    def bytes(self, message: Quarantined) -> int:
        """How large its body was."""
        return message.size

    def facts(self, request: HttpRequest, message: Quarantined) -> Iterator[Fact]:
        """What is kept of it. The body may hold anything in any encoding, so that masking can't be relied on."""
        yield Fact(_("Reason"), shown(message.reason))
        yield Fact(_("Arrived"), message.at)
        yield Fact(_("Queue"), message.queue)
        yield Fact(_("Content type"), message.content_type or NOTHING)
        yield Fact(_("Headers"), shown(message.headers) or NOTHING, code=True)
        yield Fact(_("Bytes"), message.size)
        if request.user.has_perm(VIEW_PAYLOAD):
            body = bytes(message.body)[:_BYTES_SHOWN].decode("utf-8", "backslashreplace")
            yield Fact(_("Body"), text.storable(body) or NOTHING, code=True)
        else:
            yield Fact(_("Body"), _("shown to those who may see unredacted arguments"))


class ControlAdmin(ReadOnlyAdmin):
    """Switches and drains, and who turned them: ``manage.py celeriac switch``, ``workers drain``, or the worker's page."""

    list_display = ("name", "position", "who", "why", "changed")
    list_display_links = ("name",)
    ordering = ("key",)
    paginator = BoundedPaginator

    @admin.display(description=_("switch"))
    def name(self, control: Control) -> str:
        """What it switches."""
        return control.key

    @admin.display(description=_("position"))
    def position(self, control: Control) -> object:
        """On or off, or the value of an override."""
        return _position(control)

    @admin.display(description=_("by"))
    def who(self, control: Control) -> object:
        """Who turned it last."""
        return control.actor or NOTHING

    @admin.display(description=_("reason"))
    def why(self, control: Control) -> object:
        """Why."""
        return shown(control.reason, 120) or NOTHING

    @admin.display(description=_("changed"))
    def changed(self, control: Control) -> SafeString | str:
        """When."""
        return when(control.changed_at)

    def facts(self, request: HttpRequest, control: Control) -> Iterator[Fact]:
        """All that its row says."""
        yield Fact(_("Switch"), control.key, code=True)
        yield Fact(_("Position"), _position(control))
        yield Fact(_("By"), control.actor or NOTHING)
        yield Fact(_("Reason"), shown(control.reason) or NOTHING)
        yield Fact(_("Changed"), control.changed_at)
        yield Fact(_("Version"), control.version)


def _memory(worker: Worker) -> str:
    return filesizeformat(worker.rss) if worker.rss is not None else NOTHING


def _position(control: Control) -> object:
    if control.key.startswith(drains.PREFIX):
        return _("drain") if control.value else _("resumed")
    if isinstance(control.value, bool):
        return _("on") if control.value else _("off")
    return shown(control.value)
