"""What happened to a job, in order, and why it isn't running yet: told alike by ``celeriac trace`` and by the admin.

Reads only. The happy path is told by the timestamps of ``Job`` and ``Live``, everything else by rows of its own; of attempts before the
last only those that failed have left a row. Texts are in the active language, details are redacted.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from celeriac import conf, redaction
from celeriac.clock import Now
from celeriac.dispatch.suspects import ISOLATED
from celeriac.guard import switches
from celeriac.models import Control, ErrorEvent, History, Job, Lease, Live, TriageDecision, Worker
from celeriac.states import ParkedReason, Status

T = TypeVar("T")

#: Of each kind of row the latest so many are told: a job that was sent again for weeks has thousands.
MOST: Final = 500

_EVENTS: Final[dict[str, Promise]] = {
    "accepted_parked": _("accepted, and parked"),
    "parked": _("parked"),
    "parked_retry": _("parked"),
    "parked_dispatched": _("taken back from the broker and parked"),
    "parked_long": _("parked for too long"),
    "unparked": _("no longer parked"),
    "expired": _("expired"),
    "expired_retry": _("expired"),
    "expired_dispatched": _("expired"),
    "expired_open": _("expired with retries open"),
    "revoked": _("revoked"),
    "revoked_retry": _("revoked"),
    "revoked_parked": _("revoked"),
    "revoked_dispatched": _("revoked"),
    "revoked_running": _("revoked while it ran"),
    "withdrawn": _("taken back from the broker"),
    "retried": _("will be tried again"),
    "failed": _("failed for good"),
    "cancelled": _("cancelled"),
    "dead_lettered": _("put into the dead letters"),
    "held": _("held after its run"),
    "replaced": _("replaced by a canvas"),
    "descended": _("the end of what replaced it has come"),
    "upstream_failed": _("failed with what had replaced it"),
    "handed_back": _("handed back by its worker"),
    "rescued": _("its worker was lost"),
    "lost": _("its process was lost"),
    "released": _("released by hand"),
    "late_succeeded": _("succeeded, its worker was alive after all"),
    "late_retried": _("will be tried again, its worker was alive after all"),
    "late_failed": _("failed for good, its worker was alive after all"),
    "late_cancelled": _("cancelled, its worker was alive after all"),
    "late_dead_lettered": _("put into the dead letters, its worker was alive after all"),
    "redelivered": _("sent back by hand"),
    "resolved": _("resolved by hand"),
    "ignored": _("ignored by hand"),
    "sent_again": _("sent to the broker again"),
    "outcome_refused": _("a late outcome was refused"),
    "propagated": _("its chord, chain and errbacks were told"),
}

_ENDINGS: Final[dict[Status, Promise]] = {
    Status.SUCCEEDED: _("succeeded"),
    Status.FAILED: _("failed for good"),
    Status.CANCELLED: _("cancelled"),
    Status.DEAD_LETTER: _("put into the dead letters"),
}

_PARKED: Final[dict[ParkedReason, Promise]] = {
    ParkedReason.SWITCH: _("its type or queue was switched off"),
    ParkedReason.BREAKER: _("the circuit breaker of its type is open"),
    ParkedReason.DEGRADED: _("the platform is degraded and lets more important jobs go first"),
    ParkedReason.ORDER: _("an earlier job with the same ordering key has not ended"),
    ParkedReason.RAMP: _("the backlog of its type is being released step by step"),
    ParkedReason.REPLACED: _("it was replaced by a canvas whose end has not come yet"),
    ParkedReason.NO_HANDLER: _("no live worker of its queue knows its type"),
    ParkedReason.REVIEW: _("a person has to look at it"),
}

#: Moves by a person's hand; the decision tells more of them than the history does.
_BY_HAND: Final = frozenset({"redelivered", "resolved", "ignored"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened to a job. ``actor`` and ``worker`` are empty where there was none."""

    at: datetime
    what: str
    detail: str = ""
    actor: str = ""
    worker: str = ""


def redactor() -> redaction.Redactor:
    """The project's redactor."""
    return redaction.redactor(tuple(conf.get("REDACT_KEYS")), tuple(conf.get("REDACT_PATTERNS")))


def story(job: Job) -> list[Entry]:
    """Everything the ledger knows of *job*, oldest first; of history, errors and decisions the latest 500 each."""
    using = conf.alias()
    live = Live.objects.using(using).filter(job_id=job.pk).first()
    history = _latest(History.objects.using(using).filter(job_id=job.pk).order_by("-id")[:MOST])
    errors = _latest(ErrorEvent.objects.using(using).filter(job_id=job.pk).defer("traceback").order_by("-id")[:MOST])
    decisions = _latest(
        TriageDecision.objects.using(using)
        .filter(dead_letter__job_id=job.pk)
        .select_related("dead_letter")
        .order_by("-id")[:MOST]
    )
    ran_on = {
        job.worker,
        live.worker if live else None,
        *(row.worker for row in history),
        *(row.worker for row in errors),
    }
    workers = _names(ran_on)
    told: list[tuple[datetime, Entry]] = [
        *((e.at, e) for e in _by_timestamps(job, live, workers)),
        *_failures(errors, history, workers),
        *((e.at, e) for e in _moves(history, errors, bool(decisions), workers)),
        *((e.at, e) for e in _decided(decisions)),
        *((e.at, e) for e in _ending(job, history, workers)),
    ]
    # Stable: what has the same moment stays in the order above, which is cause before effect.
    told.sort(key=lambda pair: pair[0])
    return [entry for _at, entry in told]


def why_waiting(job: Job) -> str:
    """Why an unfinished *job* isn't running yet, or where it runs; empty for one that has ended."""
    if job.outcome is not None:
        return ""
    using = conf.alias()
    # One clock for all comparisons: the database's.
    live = Live.objects.using(using).filter(job_id=job.pk).annotate(now=Now()).first()
    if live is None:
        if Job.objects.using(using).filter(pk=job.pk, outcome__isnull=True).exists():
            return gettext(
                "It has neither an outcome nor a place among the unfinished jobs: this row is broken, doctor reports it."
            )
        return ""
    now: datetime = cast("Any", live).now  # annotated above
    if live.status == Status.RUNNING:
        return _running(live)
    if live.status == Status.PARKED:
        return _parked(live)
    if live.status == Status.DISPATCHED:
        return _dispatched(live, now)
    return _not_dispatched(live, now)


def moment(at: datetime) -> str:
    """A point in time as operators read it, in the active time zone."""
    if timezone.is_aware(at):
        return timezone.localtime(at).strftime("%Y-%m-%d %H:%M:%S %Z")
    return at.strftime("%Y-%m-%d %H:%M:%S")


# ---- the story, by source --------------------------------------------------------------------------------------------


def _by_timestamps(job: Job, live: Live | None, workers: dict[uuid.UUID, str]) -> Iterator[Entry]:
    asked = gettext("%(type)s on queue %(queue)s, priority %(priority)d") % {
        "type": job.task_type,
        "queue": job.queue,
        "priority": job.priority,
    }
    yield Entry(job.created_at, gettext("accepted"), redactor().text(f"{asked}, {job.biz_id}" if job.biz_id else asked))
    if live is None:
        if job.started_at is not None:
            yield Entry(job.started_at, gettext("started"), _attempt(job.attempt), worker=_named(job.worker, workers))
        return
    if live.dispatched_at is not None:
        sent = ngettext("sent %(count)d time", "sent %(count)d times", live.sent_count) % {"count": live.sent_count}
        yield Entry(live.dispatched_at, gettext("handed to the broker"), sent)
    if live.claimed_at is not None:
        yield Entry(live.claimed_at, gettext("started"), _attempt(live.attempt), worker=_named(live.worker, workers))


def _failures(
    errors: Iterable[ErrorEvent], history: Iterable[History], workers: dict[uuid.UUID, str]
) -> Iterator[tuple[datetime, Entry]]:
    # A failure is written microseconds after the move that it caused, in the same transaction; it is told before it.
    settled = {row.attempt: row.at for row in history if row.source == Status.RUNNING}
    for error in errors:
        entry = Entry(
            error.occurred_at,
            gettext("attempt %(number)d failed") % {"number": error.attempt},
            redactor().text(f"{error.error_code}: {error.kind}: {error.message}"),
            worker=_named(error.worker, workers),
        )
        yield min(settled.get(error.attempt, error.occurred_at), error.occurred_at), entry


def _moves(
    history: Iterable[History], errors: Iterable[ErrorEvent], decided: bool, workers: dict[uuid.UUID, str]
) -> Iterator[Entry]:
    codes = {error.attempt: error.error_code for error in errors}
    for row in history:
        if decided and row.event in _BY_HAND:
            continue
        # The failure's own entry stands right above: its text isn't said twice.
        said = (
            row.source == Status.RUNNING and row.attempt in codes and row.reason.startswith(f"{codes[row.attempt]}: ")
        )
        way = f"{row.source} → {row.target}" if row.source and row.target else ""
        detail = redactor().text("" if said else row.reason)
        yield Entry(
            row.at,
            str(_EVENTS.get(row.event, row.event)),
            ": ".join(part for part in (way, detail) if part),
            # "worker" is said by the worker's own column.
            actor=row.actor if row.worker is None else "",
            worker=_named(row.worker, workers),
        )


def _decided(decisions: Iterable[TriageDecision]) -> Iterator[Entry]:
    for decision in decisions:
        label = gettext("decided: %(action)s") % {"action": TriageDecision.Action(decision.action).label}
        detail = redactor().text("; ".join(part for part in (decision.reason, decision.change) if part))
        yield Entry(decision.at, label, detail, actor=decision.actor)


def _ending(job: Job, history: Collection[History], workers: dict[uuid.UUID, str]) -> Iterator[Entry]:
    if job.outcome is None or job.ended_at is None:
        return
    # An exceptional ending has its row in the history already.
    if any(row.target == job.outcome for row in history):
        return
    yield Entry(
        job.ended_at,
        str(_ENDINGS[Status(job.outcome)]),
        redactor().text(job.error or ""),
        worker=_named(job.worker, workers),
    )


# ---- why it waits ----------------------------------------------------------------------------------------------------


def _running(live: Live) -> str:
    said = gettext("Running on %(worker)s, process %(pid)s, since %(since)s.") % {
        "worker": _named(live.worker, _names({live.worker})),
        "pid": live.child_pid,
        "since": moment(live.claimed_at or live.since),
    }
    if live.deadline is None:
        return said
    return f"{said} " + gettext("Its deadline is %(deadline)s.") % {"deadline": moment(live.deadline)}


def _parked(live: Live) -> str:
    assert live.parked_reason is not None, "a check constraint of the table says so"
    reason = ParkedReason(live.parked_reason)
    said = gettext("Parked since %(since)s: %(reason)s.") % {"since": moment(live.since), "reason": _PARKED[reason]}
    more = {ParkedReason.SWITCH: _switched_off, ParkedReason.REVIEW: _old_run}.get(reason)
    return f"{said} {more(live)}".rstrip() if more is not None else said


def _old_run(live: Live) -> str:
    # The place of a parked job names no worker any more; the move that parked it does.
    moves = History.objects.using(conf.alias()).filter(job_id=live.job_id, target=Status.PARKED, worker__isnull=False)
    worker = moves.order_by("-id").values_list("worker", flat=True).first()
    if worker is None:
        return gettext("Its old run may still be at work.")
    return gettext("Its old run may still be at work on %(worker)s.") % {"worker": _named(worker, _names({worker}))}


def _dispatched(live: Live, now: datetime) -> str:
    sent = ngettext("sent %(count)d time", "sent %(count)d times", live.sent_count) % {"count": live.sent_count}
    at = moment(live.dispatched_at or live.since)
    if live.worker is not None:
        return gettext("Sent to %(worker)s alone %(at)s (%(sent)s) and not claimed yet. %(why)s") % {
            "worker": _named(live.worker, _names({live.worker})),
            "at": at,
            "sent": sent,
            "why": _aboard(live.suspicion),
        }
    waits = gettext("Handed to the broker %(at)s (%(sent)s) and not claimed yet.") % {"at": at, "sent": sent}
    return f"{waits} {_held_up(live, now)}".rstrip()


def _not_dispatched(live: Live, now: datetime) -> str:
    if live.run_at > now:
        if live.status == Status.RETRY:
            return gettext("Retry %(number)d is due %(at)s.") % {"number": live.retry_count, "at": moment(live.run_at)}
        return gettext("Not due until %(at)s.") % {"at": moment(live.run_at)}
    if live.expires_at is not None and live.expires_at <= now:
        return gettext("It expired %(at)s and is about to be cancelled.") % {"at": moment(live.expires_at)}
    due = gettext("Due since %(at)s.") % {"at": moment(live.run_at)}
    held_up = _held_up(live, now)
    if live.suspicion:
        return f"{due} {_suspected(live)} {held_up}".rstrip()
    held_up = held_up or _busy(live) or gettext("A slot is free: the scheduler's next pass takes it.")
    return f"{due} {held_up}"


def _aboard(suspicion: int) -> str:
    return ngettext(
        "%(count)d worker was lost with it aboard.", "%(count)d workers were lost with it aboard.", suspicion
    ) % {"count": suspicion}


def _suspected(live: Live) -> str:
    """How a suspect runs next, why, and what it waits for (``dispatch.suspects`` decides it)."""
    if live.suspicion < ISOLATED:
        said = gettext("It runs next through a worker's own queue.")
        return f"{_aboard(live.suspicion)} {said}"
    said = gettext("It runs alone on a worker next, without another suspect beside it.")
    consumers = {worker.pk for worker in _consumers(live.queue)}
    suspects = Live.objects.using(conf.alias()).filter(suspicion__gt=0, worker__in=consumers)
    taken = set(suspects.values_list("worker", flat=True))
    waits = gettext("It waits for a worker without a suspect.") if consumers and consumers <= taken else ""
    return f"{_aboard(live.suspicion)} {said} {waits}".rstrip()


def _held_up(live: Live, now: datetime) -> str:
    """What keeps a due or dispatched job from being claimed, beside full slots."""
    off = _switched_off(live)
    if off:
        return off
    consumers = _consumers(live.queue)
    if not consumers:
        return _nobody(live.queue)
    if not any(live.task_type in worker.tasks for worker in consumers):
        return gettext("No live worker of queue %(queue)s knows the type %(type)s.") % {
            "queue": live.queue,
            "type": live.task_type,
        }
    lease = Lease.objects.using(conf.alias()).filter(name="scheduler").first()
    if lease is None:
        return gettext("No scheduler has ever led.")
    # Thrice the time at which a standby takes over: what is older has no leader and no standby.
    if now - lease.renewed_at > timedelta(seconds=3 * conf.get("LEASE_SECONDS")):
        return gettext("No scheduler has led since %(at)s.") % {"at": moment(lease.renewed_at)}
    return ""


def _nobody(queue: str) -> str:
    others = [worker for worker in Worker.objects.using(conf.alias()).alive() if queue in worker.queues]
    if not others:
        return gettext("No live worker consumes queue %(queue)s.") % {"queue": queue}
    return gettext("No worker consumes queue %(queue)s now: %(workers)s.") % {
        "queue": queue,
        "workers": ", ".join(f"{worker.hostname} ({Worker.State(worker.state).label})" for worker in others),
    }


def _switched_off(live: Live) -> str:
    off = switches.read().off(live.task_type, live.queue)
    if off is None:
        return ""
    kind, _space, name = off.partition(" ")
    label = gettext("Type %(name)s") if kind == "type" else gettext("Queue %(name)s")
    row = Control.objects.using(conf.alias()).filter(key=f"consume:{kind}:{name}").first()
    if row is None:
        # Switched on again since the line above.
        return ""
    return gettext("%(what)s is switched off since %(at)s by %(actor)s: %(reason)s") % {
        "what": label % {"name": name},
        "at": moment(row.changed_at),
        "actor": row.actor or "?",
        "reason": redactor().text(row.reason) or "?",
    }


def _busy(live: Live) -> str:
    consumers = _consumers(live.queue)
    slots = sum(worker.slots for worker in consumers)
    using = conf.alias()
    running = Live.objects.using(using).running().filter(worker__in=[worker.pk for worker in consumers]).count()
    # What is dispatched has a slot reserved for it.
    reserved = Live.objects.using(using).dispatched().filter(queue=live.queue).count()
    if running + reserved < slots:
        return ""
    return ngettext(
        "The only slot of queue %(queue)s is taken.",
        "All %(slots)d slots of queue %(queue)s are taken.",
        slots,
    ) % {"slots": slots, "queue": live.queue}


# ---- shared ----------------------------------------------------------------------------------------------------------


def _consumers(queue: str) -> list[Worker]:
    alive = Worker.objects.using(conf.alias()).alive().filter(state=Worker.State.ALIVE)
    return [worker for worker in alive if queue in worker.queues]


def _names(workers: Collection[uuid.UUID | None]) -> dict[uuid.UUID, str]:
    wanted = [worker for worker in workers if worker is not None]
    if not wanted:
        return {}
    return dict(Worker.objects.using(conf.alias()).filter(pk__in=wanted).values_list("pk", "hostname"))


def _named(worker: uuid.UUID | None, names: dict[uuid.UUID, str]) -> str:
    """Node name and the beginning of the incarnation's id: several incarnations may share the name."""
    if worker is None:
        return ""
    short = str(worker)[:8]
    return f"{names[worker]} ({short})" if worker in names else short


def _attempt(number: int) -> str:
    return gettext("attempt %(number)d") % {"number": number}


def _latest(rows: Iterable[T]) -> list[T]:
    """Rows that were read newest first, oldest first."""
    return list(rows)[::-1]
