"""``status``: queues, workers, dead letters, switches on one screen."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from celeriac.observe.status import look

HELP = "Show queues, workers, dead letters and switches."


def arguments(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="Print as one JSON object.")


def run(options: dict[str, Any], out: Any) -> int:
    """Print the state of the platform."""
    state = look()
    if options["json"]:
        out.write(json.dumps(asdict(state)))
        return 0
    out.write(f"{'queue':<20}{'due':>8}{'later':>8}{'window':>8}{'running':>9}{'parked':>8}{'slots':>7}   oldest due")
    for q in state.queues:
        said = f"   {q.rescued} rescued, next to start" if q.rescued else ""
        said += f"   {q.suspects} suspected" if q.suspects else ""
        said += "   OFF" if q.off else ""
        age = f"{q.oldest_seconds:.1f} s" if q.oldest_seconds is not None else "-"
        out.write(
            f"{q.name:<20}{q.due:>8}{q.later:>8}{q.dispatched:>8}{q.running:>9}{q.parked:>8}{q.slots:>7}   {age}{said}"
        )
    if not state.queues:
        out.write("(nothing waits, nothing runs)")
    out.write("")
    out.write(f"workers: {len(state.workers)} alive")
    for w in state.workers:
        out.write(f"  {w.state:<9}{w.name}  {w.pool}, {w.free}/{w.slots} free, {','.join(w.queues)}")
    out.write(f"scheduler: {state.leader}")
    standbys = ", ".join(f"{s.holder} ({s.seat})" for s in state.standbys)
    out.write(f"  stands ready: {standbys or 'nobody, start a second one'}")
    out.write(f"dead letters: {state.dead_letters} open")
    out.write(f"switched off: {', '.join(state.switched_off) or 'nothing'}")
    return 0
