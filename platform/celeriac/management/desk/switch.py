"""``switch``: consumption of a type or a queue on or off."""

from __future__ import annotations

import argparse
import getpass
from typing import Any

from django.core.management.base import CommandError

from celeriac import conf
from celeriac.guard import switches
from celeriac.models import Worker

HELP = "Switch consumption of a task type or a queue on or off; without arguments, show what is off."


def arguments(parser: argparse.ArgumentParser) -> None:
    """``switch type|queue NAME on|off --reason …``."""
    parser.add_argument("kind", nargs="?", choices=["type", "queue"])
    parser.add_argument("name", nargs="?")
    parser.add_argument("state", nargs="?", choices=["on", "off"])
    parser.add_argument("--reason", default="", help="Why; kept with the switch.")


def run(options: dict[str, Any], out: Any) -> int:
    """Turn it, or show what is off."""
    if options["kind"] is None:
        off = switches.read()
        for kind, names in (("type", off.types), ("queue", off.queues)):
            for name in sorted(names):
                out.write(f"off: {kind} {name}")
        if not off.types and not off.queues:
            out.write("Everything is on.")
        return 0
    if not options["name"] or not options["state"]:
        raise CommandError(
            "Say what and which way, for example: switch type shop.sms off --reason 'gateway maintenance'"
        )
    if not _known(options["kind"], options["name"]):
        out.write(
            f"Note: no live worker {'consumes' if options['kind'] == 'queue' else 'knows'} {options['name']!r}. Is it spelt right?"
        )
    row = switches.turn(
        options["kind"], options["name"], on=options["state"] == "on", actor=getpass.getuser(), reason=options["reason"]
    )
    out.write(
        f"{options['kind']} {options['name']} is {options['state']} (version {row.version}); effective within 2 s."
    )
    return 0


def _known(kind: str, name: str) -> bool:
    """Whether a live worker serves *name*: a misspelt switch holds nothing."""
    field = "queues" if kind == "queue" else "tasks"
    return Worker.objects.using(conf.alias()).alive().filter(**{f"{field}__contains": [name]}).exists()
