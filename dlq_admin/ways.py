"""The ways out of the dead letters as the desk offers them. What each does is ``celeriac.triage.letters``'; here are its words and its permission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from celeriac.models import DeadLetter
from celeriac.triage import letters
from celeriac.triage.letters import Decider

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

#: What a person needs to see unredacted arguments, and what to change them.
VIEW_PAYLOAD: Final = "celeriac.view_payload"
EDIT: Final = ("celeriac.edit_deadletter_payload", VIEW_PAYLOAD)


@dataclass(frozen=True, slots=True)
class Way:
    """A way out that needs nothing but a reason.

    ``name`` is its part of the address. ``consequence`` says before the decision what it will do, ``done`` and ``done_many`` (with
    ``count``) afterwards what it did.
    """

    name: str
    permission: str
    button: _StrPromise
    consequence: _StrPromise
    done: _StrPromise
    done_many: _StrPromise
    act: Callable[[DeadLetter, Decider, str], None]
    runs: bool
    """Whether the job runs afterwards."""

    def allowed(self, request: HttpRequest) -> bool:
        """Whether the person may go this way."""
        return request.user.has_perm(self.permission)


RUN_AGAIN: Final = Way(
    name="run-again",
    permission="celeriac.redeliver_deadletter",
    button=_("Run again as it is"),
    consequence=_(
        "The job goes back to its queue with the same arguments. Its attempts begin anew, with all the retries of its policy."
    ),
    done=_("Sent back: the job is in its queue again."),
    done_many=_("Sent back: %(count)d."),
    act=letters.run_again,
    runs=True,
)
IGNORE: Final = Way(
    name="ignore",
    permission="celeriac.ignore_deadletter",
    button=_("Ignore with a reason"),
    consequence=_("The job ends as CANCELLED and will not run again. It stays in the ledger, with your reason."),
    done=_("Ignored: the job has ended as CANCELLED."),
    done_many=_("Ignored: %(count)d."),
    act=letters.ignore,
    runs=False,
)
WAYS: Final = {way.name: way for way in (RUN_AGAIN, IGNORE)}


def may_edit(request: HttpRequest) -> bool:
    """Whether the person may change arguments; nobody can edit what they may not see."""
    return request.user.has_perms(EDIT)


def decider(request: HttpRequest) -> Decider:
    """The signed-in person, as decisions name them."""
    user: Any = request.user
    return Decider(user.get_username(), user.pk)
