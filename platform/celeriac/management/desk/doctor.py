"""``doctor``: is every job somebody's, with a next event? Exit code 0 only if so."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from celeriac.upkeep import doctor

HELP = "Check the ledger; exit code 1 when something is found."


def arguments(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="Print findings as one JSON object.")


def run(options: dict[str, Any], out: Any) -> int:
    """Print what was found."""
    findings = doctor.examine()
    if options["json"]:
        out.write(json.dumps({"clean": not findings, "findings": [asdict(f) for f in findings]}))
    elif not findings:
        out.write(f"Clean: {len(doctor.CHECKS)} checks, nothing found.")
    else:
        for finding in findings:
            out.write(f"{finding.check}: {finding.count} × {finding.what}")
            if finding.examples:
                out.write(f"    for example {', '.join(finding.examples)}")
            out.write(f"    {finding.remedy}")
    return 1 if findings else 0
