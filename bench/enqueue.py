"""Accepting jobs one by one: rows in PostgreSQL that survive a power cut, beside messages in Redis that don't."""

import gc
import time
from collections.abc import Callable, Sequence

from bench.command import Plan, Size
from bench.command import main as command
from bench.ground import Ground
from bench.pairs import interleaved
from bench.report import Row
from bench.sides import TEXT, Side, bare, ours

FULL, SHORT = Size(pairs=21, jobs=1000), Size(pairs=6, jobs=200)
WARM_UP = 100  # jobs


def measure(ground: Ground, plan: Plan) -> list[Row]:
    """The rows `one` and `bytes`."""
    rates: dict[str, list[float]] = {}
    sides = {side.name: _side(side, ground, plan.size.jobs) for side in (ours(), bare())}
    for number, found in enumerate(interleaved(sides, plan.size.pairs), 1):
        for name, rate in found.items():
            rates.setdefault(name, []).append(rate)
        plan.say(f"pair {number}: " + ", ".join(f"{name} {found[name]:,.0f} jobs/s" for name in sides))
    one = Row.of_pairs("one", bare().name, rates["ours"], rates[bare().name], "jobs/s")
    return [one, _weight(ground, plan)]


def _side(side: Side, ground: Ground, jobs: int) -> Callable[[], float]:
    def rate() -> float:
        ground.clear()
        for _ in range(WARM_UP):
            side.task.delay(0.0, TEXT)
        gc.collect()
        begun = time.perf_counter()
        for _ in range(jobs):
            side.task.delay(0.0, TEXT)
        return jobs / (time.perf_counter() - begun)

    return rate


def _weight(ground: Ground, plan: Plan) -> Row:
    from bench.weight import bytes_a_job  # needs Django's models

    ground.clear()
    # Small tables weigh more a job: a page is the least that anything takes.
    return Row.alone("bytes", bytes_a_job(2_000 if plan.short else 20_000), "bytes")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m bench.enqueue`."""
    return command("enqueue", str(__doc__), FULL, SHORT, measure, argv)


if __name__ == "__main__":
    raise SystemExit(main())
