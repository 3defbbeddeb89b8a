"""``health``: a probe's question about this host's worker or scheduler, or about the whole platform."""

from __future__ import annotations

import argparse
import json
import socket
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from celeriac.observe import health

HELP = "Judge this host's workers or schedulers, or the whole platform; exit code 1 when something is wrong."


def arguments(parser: argparse.ArgumentParser) -> None:
    """``health worker|scheduler|all --json --name NODE``."""
    parser.add_argument("what", choices=["worker", "scheduler", "all"])
    parser.add_argument("--json", action="store_true", help="Print as one JSON object.")
    parser.add_argument("--name", metavar="NODE", help="Only the worker of this node name.")


def run(options: dict[str, Any], out: Any) -> int:
    """Print what was found."""
    if options["name"] is not None and options["what"] != "worker":
        raise CommandError("--name is for worker.")
    report = health.ask(options["what"], host=socket.gethostname(), name=options["name"])
    if options["json"]:
        out.write(json.dumps(asdict(report)))
    else:
        out.write(report.status)
        for check in report.checks:
            out.write(f"  {'ok  ' if check.healthy else 'FAIL'}  {check.what}: {check.reason}")
    return 0 if report.healthy else 1
