"""Draining workers at the desk: permission → confirm by POST with a reason → one call of ``celeriac.guard.drains`` a worker → message.

A GET shows and never changes anything. A worker that has ended meanwhile is left out: its drain would be nobody's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from celeriac import conf
from celeriac.guard import drains
from celeriac.models import Control, Live, Worker
from dlq_admin.forms import MOST_WORKERS, WorkersForm
from dlq_admin.readonly import ReadOnlyAdmin

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

PERMISSION: Final = "celeriac.drain_worker"


@dataclass(frozen=True, slots=True)
class Turn:
    """One of the two things that can be said to a worker. ``name`` is its part of the address."""

    name: str
    button: _StrPromise
    consequence: _StrPromise
    done: _StrPromise
    act: Callable[..., Control]


DRAIN: Final = Turn(
    name="drain",
    button=_("Drain"),
    consequence=_(
        "Within a second it takes nothing new; it finishes what runs, and ends. Nothing is lost or charged. Until it has ended it can be resumed."
    ),
    done=_("Told to drain: %(count)d."),
    act=drains.begin,
)
RESUME: Final = Turn(
    name="resume",
    button=_("Resume"),
    consequence=_("It takes new jobs again within a second, unless it has just ended."),
    done=_("Told to go on: %(count)d."),
    act=drains.end,
)
TURNS: Final = {turn.name: turn for turn in (DRAIN, RESUME)}


def allowed(request: HttpRequest) -> bool:
    """Whether the person may drain and resume workers."""
    return request.user.has_perm(PERMISSION)


def ask(desk: ReadOnlyAdmin, request: HttpRequest, selected: QuerySet[Worker], turn: Turn) -> HttpResponse | None:
    """The confirmation page for the workers selected in the list; ``None`` goes back to the list with a message."""
    chosen = list(selected.filter(ended_at__isnull=True).values_list("pk", flat=True)[: MOST_WORKERS + 1])
    if len(chosen) > MOST_WORKERS:
        messages.error(request, gettext("At most %(most)d workers at once.") % {"most": MOST_WORKERS})
        return None
    if not chosen:
        messages.warning(request, gettext("None of the selected workers is alive."))
        return None
    return _page(desk, request, turn, WorkersForm.of(chosen), chosen)


def view(desk: ReadOnlyAdmin, request: HttpRequest, turn: str) -> HttpResponse:
    """GET: the confirmation page for the ``worker`` of the query. POST: tell the workers that were confirmed."""
    if turn not in TURNS:
        raise Http404
    if not desk.has_view_permission(request) or not allowed(request):
        raise PermissionDenied
    chosen = TURNS[turn]
    if request.method == "POST":
        return _tell(desk, request, chosen)
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "POST"])
    form = WorkersForm({"workers": request.GET.get("worker", "")})
    if "workers" in form.errors:
        raise Http404
    workers = form.cleaned_data["workers"]
    return _page(desk, request, chosen, WorkersForm.of(workers), workers)


def _tell(desk: ReadOnlyAdmin, request: HttpRequest, turn: Turn) -> HttpResponse:
    form = WorkersForm(request.POST)
    if not form.is_valid():
        if "workers" in form.errors:
            messages.error(request, " ".join(str(error) for error in form.errors["workers"]))
            return HttpResponseRedirect(reverse("admin:celeriac_worker_changelist"))
        return _page(desk, request, turn, form, form.cleaned_data["workers"])
    asked = form.cleaned_data["workers"]
    living = _living(asked)
    user: Any = request.user
    for worker in living:
        turn.act(worker.pk, actor=user.get_username(), reason=form.cleaned_data["reason"])
    if living:
        messages.success(request, str(turn.done) % {"count": len(living)})
    if ended := len(asked) - len(living):
        left = ngettext(
            "%(count)d worker had ended meanwhile and was left out.",
            "%(count)d workers had ended meanwhile and were left out.",
            ended,
        )
        messages.warning(request, left % {"count": ended})
    if len(asked) == 1 and living:
        return HttpResponseRedirect(reverse("admin:celeriac_worker_change", args=[living[0].pk]))
    return HttpResponseRedirect(reverse("admin:celeriac_worker_changelist"))


def _page(
    desk: ReadOnlyAdmin, request: HttpRequest, turn: Turn, form: WorkersForm, chosen: Collection[uuid.UUID]
) -> HttpResponse:
    workers = _living(chosen)
    if not workers:
        messages.warning(request, gettext("None of the selected workers is alive."))
        return HttpResponseRedirect(reverse("admin:celeriac_worker_changelist"))
    live = Live.objects.using(conf.alias()).running().filter(worker__in=[worker.pk for worker in workers])
    running = dict(live.order_by().values_list("worker").annotate(n=Count("pk")))
    context = {"turn": turn, "form": form, "workers": [(worker, running.get(worker.pk, 0)) for worker in workers]}
    return desk.page(request, "dlq_admin/drain.html", turn.button, None, context)


def _living(chosen: Collection[uuid.UUID]) -> list[Worker]:
    return list(Worker.objects.using(conf.alias()).alive().filter(pk__in=chosen).order_by("hostname", "pk"))
