"""From the call of `.delay()` to the first line of the task's body, on a fleet with nothing else to do."""

import gc
import random
import time
from collections.abc import Callable, Sequence

from bench.command import Plan, Size
from bench.command import main as command
from bench.ground import Ground
from bench.pairs import interleaved, percentile
from bench.report import Row
from bench.sides import TEXT, Side, ours, usual

FULL, SHORT = Size(pairs=9, jobs=200), Size(pairs=6, jobs=40)
RATE = 20.0  # jobs a second
WARM_UP = 40  # jobs: every child has run some


def measure(ground: Ground, plan: Plan) -> list[Row]:
    """The rows `p50` and `p99`, in milliseconds: here less is better."""
    reference = usual()
    # One order of pauses for both sides of a pair, another for each pair.
    pauses = random.Random(plan.seed)
    rows: dict[str, dict[float, list[float]]] = {}
    paces: list[list[float]] = []
    for _ in range(plan.size.pairs):
        paces.append([(number + pauses.random()) / RATE for number in range(plan.size.jobs)])
    sides = {side.name: _side(side, ground, paces) for side in (ours(), reference)}
    for number, found in enumerate(interleaved(sides, plan.size.pairs), 1):
        for name, delays in found.items():
            of = rows.setdefault(name, {50: [], 99: []})
            for percent, values in of.items():
                values.append(percentile(delays, percent))
        told = (f"{name} p50 {rows[name][50][-1]:.1f} p99 {rows[name][99][-1]:.1f} ms" for name in sides)
        plan.say(f"pair {number}: " + ", ".join(told))
    return [
        Row.of_pairs(f"p{percent}", reference.name, rows["ours"][percent], rows[reference.name][percent], "ms")
        for percent in (50, 99)
    ]


def _side(side: Side, ground: Ground, paces: Sequence[Sequence[float]]) -> Callable[[], list[float]]:
    left = iter(paces)

    def delays() -> list[float]:
        """Milliseconds of each job."""
        ground.clear()
        pace = next(left)
        with side.running(ground) as (processes, marks):
            for _ in range(WARM_UP):
                side.task.delay(0.0, TEXT)
            processes.wait_until(f"jobs of {side.name} have run", marks.count, WARM_UP)
            gc.collect()
            _send(side, pace)
            processes.wait_until(f"jobs of {side.name} have run", marks.count, WARM_UP + len(pace))
            return [(begun - sent) * 1000 for sent, begun in marks.all() if sent]

    return delays


def _send(side: Side, pace: Sequence[float]) -> None:
    """Send one job at each moment of `pace`, seconds from now: somewhere within its own 50 ms.

    Strictly regular jobs would fall into step with whatever polls, and measure its phase.
    """
    begun = time.perf_counter()
    for at in pace:
        time.sleep(max(0.0, begun + at - time.perf_counter()))
        side.task.delay(time.time(), TEXT)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m bench.latency`."""
    return command("latency", str(__doc__), FULL, SHORT, measure, argv)


if __name__ == "__main__":
    raise SystemExit(main())
