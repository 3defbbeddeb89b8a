"""``workers``: the incarnations that live, those that ended last, and draining some of them."""

from __future__ import annotations

import argparse
import getpass
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from django.core.management.base import CommandError

from celeriac import conf
from celeriac.guard import drains
from celeriac.models import Live, Worker

HELP = "List live workers, with --all also the last 20 that ended; drain NAME, resume NAME."

#: Shorter beginnings of an id hit somebody else too easily.
_PREFIX: Final = 4
_LOOK_EVERY: Final = 0.5
_MEGABYTE: Final = 2**20


def arguments(parser: argparse.ArgumentParser) -> None:
    """``--all``, ``--json``; ``drain NAME --reason … --wait …``, ``resume NAME --reason …``."""
    parser.add_argument("way", nargs="?", choices=["drain", "resume"])
    parser.add_argument("name", nargs="?", help="Node name, incarnation id, or the beginning of one.")
    parser.add_argument("--all", action="store_true", help="Also those that ended, with the verdict.")
    parser.add_argument("--json", action="store_true", help="Print as one JSON list.")
    parser.add_argument("--reason", default="", help="Why; kept with the drain.")
    parser.add_argument(
        "--wait", type=float, metavar="SECONDS", help="Return when they have ended; exit code 1 if not by then."
    )


def run(options: dict[str, Any], out: Any) -> int:
    """List, drain or resume."""
    way, name = options["way"], options["name"]
    if way is None:
        _list(options, out)
        return 0
    if not name:
        raise CommandError(f"Say which worker, for example: workers {way} sms1@host. {_living()}")
    if options["wait"] is not None and way != "drain":
        raise CommandError("--wait is for drain.")
    workers = _named(name)
    if way == "resume":
        return _resume(workers, options["reason"], out)
    return _drain(workers, options["reason"], options["wait"], out)


# ---- the list --------------------------------------------------------------------------------------------------------


def _list(options: dict[str, Any], out: Any) -> None:
    rows = Worker.objects.using(conf.alias())
    shown = list(rows.alive().order_by("hostname", "started_at")) + (
        list(rows.exclude(ended_at=None).order_by("-ended_at")[:20]) if options["all"] else []
    )
    draining = drains.asked(w.pk for w in shown)
    if options["json"]:
        out.write(json.dumps([_as_json(w, w.pk in draining) for w in shown]))
        return
    for w in shown:
        memory = f"{w.rss // _MEGABYTE} MB" if w.rss is not None else "-"
        said = [f"{w.refused} refused"] if w.refused else []
        said += (
            ["told to drain"] if w.pk in draining and w.state != Worker.State.DRAINING and w.ended_at is None else []
        )
        said += [w.verdict] if w.verdict else []
        slots = f"{w.free}/{w.slots} free"
        out.write(
            f"{w.state:<9}{w.hostname:<28} {w.host or '?':<20} pid {w.pid:<8}{w.pool:<9}{slots:<12}{memory:<9}"
            f"{','.join(w.queues)}  {w.id}" + "".join(f"  {text}" for text in said)
        )
    if not shown:
        out.write("No worker is alive.")


def _as_json(w: Worker, draining: bool) -> dict[str, Any]:
    return {
        "id": str(w.id),
        "name": w.hostname,
        "host": w.host,
        "pid": w.pid,
        "pool": w.pool,
        "state": w.state,
        "queues": w.queues,
        "slots": w.slots,
        "free": w.free,
        "held": w.held,
        "rss": w.rss,
        "refused": w.refused,
        "told_to_drain": draining,
        "started_at": w.started_at.isoformat(),
        "beat_at": w.beat_at.isoformat(),
        "ended_at": w.ended_at.isoformat() if w.ended_at is not None else None,
        "verdict": w.verdict,
    }


# ---- drain and resume ------------------------------------------------------------------------------------------------


def _drain(workers: Sequence[Worker], reason: str, wait: float | None, out: Any) -> int:
    for w in workers:
        row = drains.begin(w.pk, actor=getpass.getuser(), reason=reason)
        out.write(
            f"{_title(w)} takes nothing new within a second and ends when it has finished (version {row.version})."
        )
    return 0 if wait is None else _wait(workers, wait, out)


def _resume(workers: Sequence[Worker], reason: str, out: Any) -> int:
    draining = drains.asked(w.pk for w in workers)
    for w in workers:
        if w.pk not in draining:
            out.write(f"{_title(w)} isn't draining.")
            continue
        row = drains.end(w.pk, actor=getpass.getuser(), reason=reason)
        out.write(f"{_title(w)} goes on within a second, unless it has just ended (version {row.version}).")
    return 0


def _wait(workers: Sequence[Worker], seconds: float, out: Any) -> int:
    until = time.monotonic() + seconds
    waiting = {w.pk: w for w in workers}
    while True:
        ended = Worker.objects.using(conf.alias()).filter(pk__in=waiting, ended_at__isnull=False)
        for w in ended:
            del waiting[w.pk]
            out.write(f"{_title(w)} has ended ({w.state})." + (f" {w.verdict}" if w.verdict else ""))
        if not waiting:
            return 0
        resumed = waiting.keys() - drains.asked(waiting).keys()
        if resumed:
            out.write(f"Somebody resumed {', '.join(_title(waiting[pk]) for pk in resumed)} meanwhile.")
            return 1
        left = until - time.monotonic()
        if left <= 0:
            for w in waiting.values():
                running = Live.objects.using(conf.alias()).running().filter(worker=w.pk).count()
                out.write(f"{_title(w)} has not ended after {seconds:g} s: {running} job(s) still run there.")
            return 1
        time.sleep(min(_LOOK_EVERY, left))


# ---- which -----------------------------------------------------------------------------------------------------------


def _named(name: str) -> list[Worker]:
    """The live incarnations of node *name*, or the one whose id begins so."""
    living = list(Worker.objects.using(conf.alias()).alive().order_by("hostname", "started_at"))
    found = [w for w in living if w.hostname == name]
    if found:
        return found
    beginning = name.lower()
    found = [w for w in living if str(w.pk).startswith(beginning)]
    if len(found) == 1 and len(beginning) >= _PREFIX:
        return found
    if found:
        which = ", ".join(f"{w.hostname} {w.pk}" for w in found)
        few = f"at least {_PREFIX} characters of it" if len(beginning) < _PREFIX else "more of it"
        raise CommandError(f"{name!r} is the beginning of {which}: give {few}.")
    last = _ended(name)
    what = f"No worker called {name!r} is alive"
    if last is not None:
        what += f", the last one ended {last.ended_at:%Y-%m-%d %H:%M:%S} ({last.state})"
    raise CommandError(f"{what}. {_living(living)}")


def _ended(name: str) -> Worker | None:
    """The incarnation of that node, or of that whole id, that ended last."""
    ended = Worker.objects.using(conf.alias()).exclude(ended_at=None).order_by("-ended_at")
    try:
        return ended.filter(pk=uuid.UUID(name)).first()
    except ValueError:
        return ended.filter(hostname=name).first()


def _living(living: Sequence[Worker] | None = None) -> str:
    if living is None:
        living = list(Worker.objects.using(conf.alias()).alive().order_by("hostname", "started_at"))
    return f"Alive: {', '.join(_title(w) for w in living)}." if living else "No worker is alive."


def _title(w: Worker) -> str:
    return f"{w.hostname} ({str(w.pk)[:8]})"
