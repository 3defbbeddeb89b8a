"""``manage.py celeriac …``: what on-call people ask, without database access of their own."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from celeriac.management.desk import adopt, dlq, doctor, health, release, status, switch, trace, workers

COMMANDS = {
    "doctor": doctor,
    "status": status,
    "health": health,
    "trace": trace,
    "switch": switch,
    "workers": workers,
    "dlq": dlq,
    "release": release,
    "adopt": adopt,
}


class Command(BaseCommand):
    """Dispatches to the desk's modules."""

    help = "Look after the ledger: doctor, status, health, trace, switch, workers, dlq, release, adopt."
    # On call is when a check may fail; and a probe must not load the project's URLs every few seconds.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """One sub-parser a module."""
        parsers = parser.add_subparsers(dest="command", required=True, metavar="command")
        for name, module in COMMANDS.items():
            module.arguments(parsers.add_parser(name, help=module.HELP, description=module.HELP))

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it and exit with its code."""
        code = COMMANDS[options["command"]].run(options, self.stdout)
        if code:
            sys.exit(code)
