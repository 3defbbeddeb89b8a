"""The command line that all benches share."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.errors import BenchError
from bench.ground import Ground
from bench.report import Row, line, table
from bench.versions import versions


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: rounds, and jobs a side in each."""

    pairs: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    size: Size
    seed: int
    short: bool
    full: bool = False

    def say(self, text: str) -> None:
        """Tell whoever waits how far it is; on standard error, so that standard output stays the report's."""
        print(text, file=sys.stderr, flush=True)


def main(
    bench: str,
    about: str,
    full: Size,
    short: Size,
    measure: Callable[[Ground, Plan], list[Row]],
    argv: Sequence[str] | None = None,
    *,
    more: str | None = None,
) -> int:
    """Measure as the arguments say, print, and return the exit status. *more*: what `--full` measures beside, where there is such a thing."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{bench}", description=about)
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object on standard output")
    parser.add_argument("--short", action="store_true", help=f"{short.pairs} pairs of {short.jobs} jobs: for CI")
    parser.add_argument("--pairs", "--repeats", type=_count, help=f"rounds; default {full.pairs}")
    parser.add_argument("--jobs", type=_count, help=f"jobs a side and round; default {full.jobs}")
    parser.add_argument("--seed", type=int, default=1, help="of what is random in the plan; default 1")
    if more is not None:
        parser.add_argument("--full", action="store_true", help=more)
    asked = parser.parse_args(argv)
    usual = short if asked.short else full
    plan = Plan(
        Size(asked.pairs or usual.pairs, asked.jobs or usual.jobs),
        asked.seed,
        asked.short,
        getattr(asked, "full", False),
    )
    try:
        with Ground() as ground:
            rows = measure(ground, plan)
            told = versions(ground)
    except BenchError as error:
        print(f"bench.{bench}: {error}", file=sys.stderr)
        return 1
    print(table(bench, rows, plan.size.pairs), file=sys.stderr if asked.json else sys.stdout, flush=True)
    print(line(bench, rows, told))
    return 0


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value
