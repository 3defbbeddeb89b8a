"""``dlq``: open dead letters on a terminal; they are handled in the admin."""

from __future__ import annotations

import argparse
from typing import Any

from django.db.models import Count

from celeriac import conf
from celeriac.models import DeadLetter

HELP = "Count open dead letters by type and code; --list shows them."


def arguments(parser: argparse.ArgumentParser) -> None:
    """``--list``, ``--limit``."""
    parser.add_argument("--list", action="store_true", help="One line a letter, newest first.")
    parser.add_argument("--limit", type=int, default=50, help="How many lines at most (50).")


def run(options: dict[str, Any], out: Any) -> int:
    """Print counts or lines."""
    letters = DeadLetter.objects.using(conf.alias()).open()
    if options["list"]:
        for letter in letters.select_related("job")[: options["limit"]]:
            out.write(
                f"{letter.opened_at:%Y-%m-%d %H:%M:%S}  {letter.job.public_id}  {letter.task_type}  {letter.error_code}  {letter.message[:80]}"
            )
        return 0
    groups = letters.order_by().values_list("task_type", "error_code").annotate(n=Count("pk")).order_by("-n")
    for task_type, code, n in groups:
        out.write(f"{n:>6}  {task_type}  {code}")
    if not groups:
        out.write("No open dead letters.")
    return 0
