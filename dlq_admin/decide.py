"""Decisions at the desk: permission → preview → confirm by POST with a reason → one call of ``celeriac.triage.letters`` → message.

No rule about jobs lives here. A GET shows and never changes anything; a letter that has moved since the page was made is refused by the
step itself, whatever the page looked like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from celeriac import conf
from celeriac.errors import Moved
from celeriac.guard import switches
from celeriac.models import DeadLetter, Job
from celeriac.triage import letters
from celeriac.triage.letters import BadPayload
from dlq_admin.forms import MOST_AT_ONCE, ArgumentsForm, DecisionForm, ManyForm
from dlq_admin.readonly import ReadOnlyAdmin, shown
from dlq_admin.shown import Unreadable, arguments, difference, pretty
from dlq_admin.ways import VIEW_PAYLOAD, WAYS, Way, decider, may_edit

_MOVED = _(
    "This dead letter has moved since you opened it; nothing was changed. What was decided, by whom and why, is below."
)


def one(desk: ReadOnlyAdmin, request: HttpRequest, object_id: str, way: str) -> HttpResponse:
    """Run one letter's job again, or ignore it."""
    chosen = _way(desk, request, way)
    letter = _open_letter(desk, request, object_id)
    if isinstance(letter, HttpResponse):
        return letter
    form = DecisionForm(request.POST if request.method == "POST" else None, initial={"version": letter.version})
    if request.method == "POST" and form.is_valid():
        reason = form.cleaned_data["reason"]
        return _move(
            request,
            letter,
            form.cleaned_data["version"],
            chosen.done,
            lambda: chosen.act(letter, decider(request), reason),
        )
    context = {**_about(letter), "way": chosen, "form": form}
    if not chosen.runs:
        context["off"] = None
    return desk.page(request, "dlq_admin/decide.html", chosen.button, letter, context)


@sensitive_variables()
def edit(desk: ReadOnlyAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    """Change a letter's arguments and send its job back: form, then what differs, then the confirmation."""
    _viewer(desk, request)
    if not may_edit(request):
        raise PermissionDenied
    letter = _open_letter(desk, request, object_id)
    if isinstance(letter, HttpResponse):
        return letter
    try:
        before = arguments(_payload(letter))
    except Unreadable as exc:
        messages.error(request, gettext("The stored arguments can't be read: %(fault)s") % {"fault": exc})
        return HttpResponseRedirect(_address(letter))
    title = gettext("Edit the arguments and send back")
    context = _about(letter)
    step = request.POST.get("step") if request.method == "POST" else None
    if step not in ("preview", "confirm"):
        # Also the way back from the preview, with what was entered.
        form = ArgumentsForm(initial=request.POST.dict()) if step else ArgumentsForm.filled(before, letter.version)
        return desk.page(request, "dlq_admin/edit.html", title, letter, {**context, "form": form})
    form = ArgumentsForm(request.POST)
    if form.is_valid():
        after = {"args": form.cleaned_data["args"], "kwargs": form.cleaned_data["kwargs"]}
        if difference(before, after) == []:
            form.add_error(None, gettext("Nothing is changed. There is another way out for running it again as it is."))
    if not form.is_valid():
        return desk.page(request, "dlq_admin/edit.html", title, letter, {**context, "form": form})
    decision = DecisionForm(
        request.POST if step == "confirm" else None, initial={"version": form.cleaned_data["version"]}
    )
    if step == "confirm" and decision.is_valid():
        reason = decision.cleaned_data["reason"]
        try:
            return _move(
                request,
                letter,
                decision.cleaned_data["version"],
                _("Sent back with other arguments: the job is in its queue again."),
                lambda: letters.edit_and_redeliver(letter, decider(request), reason, after["args"], after["kwargs"]),
            )
        except BadPayload as exc:
            form.add_error(None, str(exc))
            return desk.page(request, "dlq_admin/edit.html", title, letter, {**context, "form": form})
    # What was confirmed must be what was shown: the texts go through the page as they were sent, not written anew.
    context |= {"form": decision, "sent": {"args": form["args"].value(), "kwargs": form["kwargs"].value()}}
    context["difference"] = difference(before, after)
    return desk.page(request, "dlq_admin/preview.html", title, letter, context)


@sensitive_variables()
def payload(desk: ReadOnlyAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    """A letter's arguments as they are. Asked for by POST, so that no link, prefetch or history leads to them."""
    _viewer(desk, request)
    if not request.user.has_perm(VIEW_PAYLOAD):
        raise PermissionDenied
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    letter = desk.get_object(request, unquote(object_id))
    if letter is None:
        raise Http404
    try:
        said = pretty(arguments(_payload(letter)))
    except Unreadable as exc:
        said = gettext("The stored arguments can't be read: %(fault)s") % {"fault": exc}
    return desk.page(
        request, "dlq_admin/payload.html", gettext("Unredacted arguments"), letter, {"letter": letter, "payload": said}
    )


def ask_many(
    desk: ReadOnlyAdmin, request: HttpRequest, selected: QuerySet[DeadLetter], way: Way
) -> HttpResponse | None:
    """The confirmation page for the letters selected in the list; ``None`` goes back to the list with a message."""
    _viewer(desk, request)
    found = list(selected.order_by("-pk")[: MOST_AT_ONCE + 1])
    if len(found) > MOST_AT_ONCE:
        messages.error(
            request, gettext("At most %(most)d letters at once. Filter the list first.") % {"most": MOST_AT_ONCE}
        )
        return None
    still_open = [letter for letter in found if letter.state == DeadLetter.State.OPEN]
    if not still_open:
        messages.warning(request, gettext("None of the selected letters is open."))
        return None
    form = ManyForm(initial={"letters": ",".join(f"{letter.pk}:{letter.version}" for letter in still_open)})
    return _many_page(desk, request, way, form, still_open, len(found) - len(still_open))


def many(desk: ReadOnlyAdmin, request: HttpRequest, way: str) -> HttpResponse:
    """Move the letters that were confirmed, each on its own, and count what became of them."""
    chosen = _way(desk, request, way)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    form = ManyForm(request.POST)
    if not form.is_valid():
        if "letters" in form.errors:
            messages.error(request, " ".join(str(error) for error in form.errors["letters"]))
            return HttpResponseRedirect(_list(request))
        return _many_page(desk, request, chosen, form, _letters(form.cleaned_data["letters"]), 0)
    done = moved = 0
    known = {letter.pk: letter for letter in _letters(form.cleaned_data["letters"])}
    for pk, version in form.cleaned_data["letters"].items():
        letter = known.get(pk)
        if letter is None:
            moved += 1
            continue
        letter.version = version
        try:
            chosen.act(letter, decider(request), form.cleaned_data["reason"])
        except Moved:
            moved += 1
        else:
            done += 1
    if done:
        messages.success(request, str(chosen.done_many) % {"count": done})
    if moved:
        left = ngettext(
            "%(count)d letter had moved meanwhile and was left as it is.",
            "%(count)d letters had moved meanwhile and were left as they are.",
            moved,
        )
        messages.warning(request, left % {"count": moved})
    return HttpResponseRedirect(_list(request))


# ---- shared ----------------------------------------------------------------------------------------------------------


def _viewer(desk: ReadOnlyAdmin, request: HttpRequest) -> None:
    if not desk.has_view_permission(request):
        raise PermissionDenied


def _way(desk: ReadOnlyAdmin, request: HttpRequest, name: str) -> Way:
    _viewer(desk, request)
    if name not in WAYS:
        raise Http404
    if not WAYS[name].allowed(request):
        raise PermissionDenied
    return WAYS[name]


def _open_letter(desk: ReadOnlyAdmin, request: HttpRequest, object_id: str) -> DeadLetter | HttpResponse:
    """The letter, or where to go instead when it isn't open any more."""
    letter: DeadLetter | None = desk.get_object(request, unquote(object_id))
    if letter is None:
        raise Http404
    if letter.state != DeadLetter.State.OPEN:
        messages.error(request, _MOVED)
        return HttpResponseRedirect(_address(letter))
    return letter


def _move(request: HttpRequest, letter: DeadLetter, seen: int, done: object, act: Callable[[], None]) -> HttpResponse:
    # The step compares this with the row: what was read a moment ago for this page is not what the person saw.
    letter.version = seen
    try:
        act()
    except Moved:
        messages.error(request, _MOVED)
    else:
        messages.success(request, str(done))
    return HttpResponseRedirect(_address(letter))


def _many_page(
    desk: ReadOnlyAdmin, request: HttpRequest, way: Way, form: ManyForm, chosen: list[DeadLetter], left_out: int
) -> HttpResponse:
    kinds = Counter((letter.task_type, letter.error_code) for letter in chosen).most_common()
    context = {
        "way": way,
        "form": form,
        "letters": chosen,
        "kinds": kinds,
        "left_out": left_out,
        "query": request.GET.urlencode(),
    }
    return desk.page(request, "dlq_admin/decide_many.html", way.button, None, context)


def _letters(versions: dict[int, int]) -> list[DeadLetter]:
    return list(DeadLetter.objects.using(conf.alias()).filter(pk__in=versions).defer("traceback", "args_repr"))


def _payload(letter: DeadLetter) -> str:
    return Job.objects.using(conf.alias()).values_list("payload", flat=True).get(pk=letter.job_id)


def _about(letter: DeadLetter) -> dict[str, Any]:
    """What a decision's page says of the letter, and the switch that would hold its job."""
    return {
        "letter": letter,
        "message": shown(letter.message, 600),
        "off": switches.read().off(letter.task_type, letter.queue),
    }


def _address(letter: DeadLetter) -> str:
    return reverse("admin:celeriac_deadletter_change", args=[letter.pk])


def _list(request: HttpRequest) -> str:
    # The list's own filters came along as this page's query; the path is never taken from the request.
    query = request.GET.urlencode()
    return reverse("admin:celeriac_deadletter_changelist") + (f"?{query}" if query else "")
