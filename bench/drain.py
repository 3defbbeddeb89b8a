"""Emptying a backlog of jobs that do nothing: what is left is what running a job costs."""

from collections.abc import Callable, Sequence

from bench.command import Plan, Size
from bench.command import main as command
from bench.ground import Ground
from bench.pairs import interleaved
from bench.report import Row
from bench.sides import Side, bare, checked, ours, usual, usual_reusing

FULL, SHORT = Size(pairs=9, jobs=1000), Size(pairs=6, jobs=200)
WARM_UP = 100  # jobs: until every child has its connections and its caches


def measure(ground: Ground, plan: Plan) -> list[Row]:
    """The row `native` against each reference."""
    references = (usual(), usual_reusing(), bare())
    rates: dict[str, list[float]] = {}
    sides = {side.name: _side(side, ground, plan.size.jobs) for side in (ours(), *references)}
    for number, found in enumerate(interleaved(sides, plan.size.pairs), 1):
        for name, rate in found.items():
            rates.setdefault(name, []).append(rate)
        plan.say(f"round {number}: " + ", ".join(f"{name} {found[name]:,.0f} jobs/s" for name in sides))
    return [Row.of_pairs("native", r.name, rates["ours"], rates[r.name], "jobs/s") for r in references]


def _side(side: Side, ground: Ground, jobs: int) -> Callable[[], float]:
    def rate() -> float:
        ground.clear()
        side.send_many(WARM_UP + jobs)
        times = checked(side, _drained(side, ground, WARM_UP + jobs), WARM_UP + jobs)[WARM_UP:]
        return (len(times) - 1) / (times[-1] - times[0])

    return rate


def _drained(side: Side, ground: Ground, total: int) -> list[float]:
    """When each job was settled; where results are ignored, when its body began."""
    with side.running(ground) as (processes, marks):
        # The bodies' notes are counted, not the ledger's rows: the question must not slow the answer.
        processes.wait_until(f"jobs of {side.name} have run", marks.count, total)
        if side.settled is None:
            return [begun for _, begun in marks.all()]
        settled = side.settled
        processes.wait_until(f"jobs of {side.name} are settled", lambda: len(settled()), total)
        return settled()


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m bench.drain`."""
    return command("drain", str(__doc__), FULL, SHORT, measure, argv)


if __name__ == "__main__":
    raise SystemExit(main())
