"""What a bench prints: a small table for people, and one JSON object as the last line."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Self

from bench.pairs import interval, ratios


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours beside that of a reference; without a reference, only ours."""

    what: str
    reference: str | None
    ours: float
    theirs: float | None
    ratio: float | None
    low: float | None
    high: float | None
    unit: str
    note: str | None = None
    """What a reader must know to take the figure for what it is."""

    @classmethod
    def of_pairs(cls, what: str, reference: str, ours: Sequence[float], theirs: Sequence[float], unit: str) -> Self:
        """Medians of both sides, the median of the pairs' ratios (ours to theirs) and its interval."""
        each = ratios(ours, theirs)
        low, high = interval(each)
        return cls(what, reference, median(ours), median(theirs), median(each), low, high, unit)

    @classmethod
    def unanswered(cls, what: str, reference: str, ours: float, unit: str, note: str) -> Self:
        """A figure that the reference has no answer to; *note* says how long it was waited for."""
        return cls(what, reference, ours, None, None, None, None, unit, note)

    @classmethod
    def alone(cls, what: str, ours: float, unit: str, note: str | None = None) -> Self:
        """A figure that has no counterpart."""
        return cls(what, None, ours, None, None, None, None, unit, note)


def table(bench: str, rows: Sequence[Row], pairs: int) -> str:
    """The rows for people."""
    wide = max(8, *(len(row.what) for row in rows))
    lines = [
        f"{bench}: medians of {pairs} interleaved pairs; the ratio is ours to theirs, with the 95 % interval of its median",
        f"{'what':<{wide}} {'reference':<28} {'ours':>10} {'theirs':>10}  {'unit':<7} {'ratio':>7}  interval",
    ]
    for row in rows:
        lines.append(
            f"{row.what:<{wide}} {row.reference or '–':<28} {_number(row.ours):>10} {_number(row.theirs):>10}  {row.unit:<7} "
            + (f"{row.ratio:>7.2f}  {row.low:.2f} to {row.high:.2f}" if row.ratio is not None else f"{'–':>7}")
        )
    lines += [f"{row.what}, {row.reference or 'ours'}: {row.note}" for row in rows if row.note]
    return "\n".join(lines)


def line(bench: str, rows: Sequence[Row], versions: Mapping[str, str]) -> str:
    """The JSON object, on one line. A row has a note only where there is something to note."""
    shown = [
        {key: _rounded(value) for key, value in asdict(row).items() if key != "note" or value is not None}
        for row in rows
    ]
    return json.dumps({"bench": bench, "rows": shown, "versions": dict(versions)})


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _rounded(value: object) -> object:
    # Four significant digits are more than any of this is worth.
    return float(f"{value:.4g}") if isinstance(value, float) else value
