"""``adopt``: what will change for this project, and what is to be decided, before anything is changed."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

HELP = "Look at this project's tasks and settings: what changes with Celeriac, and what is to be decided."
_SHOWN = 8


def arguments(parser: argparse.ArgumentParser) -> None:
    """``--json``, ``--all``."""
    parser.add_argument("--json", action="store_true", help="Print as one JSON object.")
    parser.add_argument("--all", action="store_true", help=f"Name all tasks, not only the first {_SHOWN}.")


def run(options: dict[str, Any], out: Any) -> int:
    """Print the remarks, what is to be decided first."""
    from celeriac.bridge.survey import DECIDE, look_at  # Celery is loaded by this command only, not by every probe

    remarks = look_at()
    if options["json"]:
        out.write(json.dumps({"remarks": [asdict(remark) for remark in remarks]}))
        return 0
    for remark in remarks:
        out.write(f"{remark.kind.upper():<8}{remark.what}\n        {remark.then}")
        shown = remark.names if options["all"] else remark.names[:_SHOWN]
        if shown:
            more = f" and {len(remark.names) - len(shown)} more (--all)" if len(shown) < len(remark.names) else ""
            out.write(f"        {', '.join(shown)}{more}")
    decisions = sum(remark.kind == DECIDE for remark in remarks)
    out.write("")
    out.write(f"{decisions} thing(s) to decide." if decisions else "Nothing to decide.")
    return 0
