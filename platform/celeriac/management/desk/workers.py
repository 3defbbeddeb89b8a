"""``workers``: the incarnations that live, and those that ended last."""

from __future__ import annotations

import argparse
from typing import Any

from celeriac import conf
from celeriac.models import Worker

HELP = "List live workers, with --all also the last 20 that ended."


def arguments(parser: argparse.ArgumentParser) -> None:
    """``--all``."""
    parser.add_argument("--all", action="store_true", help="Also those that ended, with the verdict.")


def run(options: dict[str, Any], out: Any) -> int:
    """Print one line a worker."""
    rows = Worker.objects.using(conf.alias())
    shown = list(rows.alive().order_by("hostname")) + (
        list(rows.exclude(ended_at=None).order_by("-ended_at")[:20]) if options["all"] else []
    )
    for w in shown:
        verdict = f"  {w.verdict}" if w.verdict else ""
        out.write(
            f"{w.state:<9}{w.hostname:<32}pid {w.pid:<8}{w.pool:<9}{w.slots:>3} slots  {','.join(w.queues)}  {w.id}{verdict}"
        )
    if not shown:
        out.write("No worker is alive.")
    return 0
