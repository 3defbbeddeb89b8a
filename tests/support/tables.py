"""The tables in the documentation that the code has the truth of.

`python -m tests.support.tables` writes them anew, each between `<!-- table: NAME -->` and `<!-- end -->`; a test compares them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from celeriac import conf, events
from celeriac.states import ARROWS, CELERY_STATE, LIVE, OWNERS, Status
from celeriac.upkeep import doctor

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_PLACE: Final = re.compile(r"(<!-- table: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def statuses() -> str:
    """Each status with its table, its owner and its name in Celery."""
    rows = [
        (
            f"`{status}`",
            "`Live.status`" if status in LIVE else "`Job.outcome`",
            str(OWNERS[status] or "–"),
            f"`{CELERY_STATE[status]}`",
            ", ".join(f"`{step.name}`" for step in ARROWS if step.source is status) or "–",
        )
        for status in Status
    ]
    return _table(("status", "kept in", "owner of the next move", "Celery sees", "leaves it by"), rows)


def arrows() -> str:
    """Each move with its guard."""
    rows = [
        (
            f"`{step.name}`",
            f"`{step.source}`" if step.source else "(new)",
            f"`{step.target}`",
            step.guard,
            "yes" if step.raises_fence else "",
            "yes" if step.exceptional else "",
        )
        for step in ARROWS
    ]
    return _table(("move", "from", "to", "only if", "raises the fence", "in the history"), rows)


def diagram() -> str:
    """The moves as a Mermaid state diagram, moves between the same two statuses on one arrow."""
    edges: dict[tuple[str, str], list[str]] = {}
    for step in ARROWS:
        edges.setdefault((str(step.source or "[*]"), str(step.target)), []).append(step.name)
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in edges.items()]
    ends = [f"    {status} --> [*]" for status in Status if OWNERS[status] is None]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, *ends, "```", ""])


def settings() -> str:
    """Each key of ``CELERIAC``."""
    rows = []
    for key, setting in conf.SETTINGS.items():
        kind = setting.kind
        if isinstance(kind, tuple):
            values = ", ".join(f'`"{choice}"`' for choice in kind)
        else:
            values = kind.__name__ + (f", {setting.unit}" if setting.unit else "")
            values += f", at least {setting.minimum:g}" if setting.minimum is not None else ""
        rows.append((f"`{key}`", f"`{setting.default!r}`", values, setting.help))
    return _table(("key", "default", "values", "meaning"), rows)


def published_events() -> str:
    """Each event."""
    rows = [(f"`{name}`", logging.getLevelName(level), meaning) for name, (level, meaning) in events.EVENTS.items()]
    return _table(("event", "level", "meaning"), rows)


def checks() -> str:
    """Each of doctor's checks."""
    return _table(
        ("check", "finds a", "what to do"), [(f"`{check.name}`", check.what, check.remedy) for check in doctor.CHECKS]
    )


TABLES: Final[dict[str, Callable[[], str]]] = {
    "statuses": statuses,
    "arrows": arrows,
    "diagram": diagram,
    "settings": settings,
    "events": published_events,
    "doctor": checks,
}


def places(path: Path) -> dict[str, str]:
    """The tables that stand in a document, by name."""
    return {found["name"]: found["body"] for found in _PLACE.finditer(path.read_text())}


def write() -> None:
    """Bring every table in every document up to date."""
    for path in DOCS.rglob("*.md"):
        text = path.read_text()
        new = _PLACE.sub(lambda found: found[1] + TABLES[found["name"]]() + found[4], text)
        if new != text:
            path.write_text(new)


if __name__ == "__main__":
    write()
