"""Something is killed: how long until its jobs start again, beside plain Celery where it has an answer."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median

from bench.command import Plan, Size
from bench.command import main as command
from bench.errors import BenchError
from bench.fleets import Ours, Plain
from bench.ground import Ground
from bench.pairs import interleaved
from bench.report import Row
from tests.support.processes import Member

FULL, SHORT = Size(pairs=10, jobs=6), Size(pairs=2, jobs=6)
VISIBILITY = 10.0  # seconds: as short as a careful operator would dare
TUNED_ROUNDS = 3  # each takes a minute and a half
PATIENCE, SHORT_PATIENCE = 20.0, 6.0  # seconds that plain Celery is waited for
TUNED_PATIENCE = 150.0  # longer than the 100 s between two looks of Redis' transport
S = "s"


def measure(ground: Ground, plan: Plan) -> list[Row]:
    """The rows of what is killed, and with `--full` those of what is stopped, cut off and stormed."""
    try:
        ground.clear()
        rows = [*_killed_tree(ground, plan), *_killed_child(ground, plan), *_killed_scheduler(ground, plan)]
        if plan.full:
            from bench.recovery_full import measure_more

            rows += measure_more(ground, plan)
    except AssertionError as error:  # what the tests' own support waits for
        raise BenchError(str(error)) from error
    return rows


def summed(what: str, took: Sequence[float], unit: str = S, note: str | None = None) -> list[Row]:
    """Median and worst of a figure that has no counterpart."""
    return [Row.alone(what, median(took), unit, note), Row.alone(f"{what}-worst", max(took), unit)]


# ---- a whole tree ----------------------------------------------------------------------------------------------------------


class KilledTree:
    """Two trees, all jobs on the first; it is killed, and the second has become the first of the next round."""

    def __init__(self, fleet: Ours | Plain, jobs: int, kill: Callable[[Member], None] = Member.kill_tree) -> None:
        self._fleet, self._jobs, self._kill = fleet, jobs, kill
        self._first: Member | None = None
        self._rounds = 0

    def once(self, patience: float = 90.0) -> float | None:
        """Seconds from the kill until the last of the jobs has started again; ``None`` when that took longer than `patience`."""
        fleet = self._fleet
        doomed = self._first or fleet.worker()
        jobs = fleet.send(self._jobs)
        fleet.must(fleet.wait_for_starts(jobs, 1), "the jobs were to start")
        self._first = fleet.worker()
        if isinstance(fleet, Ours):
            # Every other time the leader goes down with the jobs.
            fleet.settle_in(doomed, self._first, leads=doomed if self._rounds % 2 == 0 else self._first)
        self._rounds += 1
        killed = time.time()
        self._kill(doomed)
        again = fleet.wait_for_starts(jobs, 2, patience)
        took = max(fleet.nth_starts(jobs, 2)) - killed if again else None
        fleet.let_go()
        if isinstance(fleet, Ours):
            fleet.unpaid(jobs)
        return took


def _killed_tree(ground: Ground, plan: Plan) -> list[Row]:
    patience = SHORT_PATIENCE if plan.short else PATIENCE
    mine: list[float] = []
    theirs: list[float] = []
    with ExitStack() as stack:
        ours = KilledTree(stack.enter_context(Ours(ground, embedded=True)), plan.size.jobs)
        tuned_fleet = stack.enter_context(Plain(ground, "bench-tuned", {"BENCH_VISIBILITY": str(VISIBILITY)}))
        tuned = KilledTree(tuned_fleet, plan.size.jobs)
        sides = {"ours": ours.once, "tuned": lambda: tuned.once(patience if plan.short else TUNED_PATIENCE)}
        for number in range(plan.size.pairs):
            # Theirs takes so long that it has fewer rounds; it takes turns with ours while it lasts.
            wanted = sides if len(theirs) == number and number < TUNED_ROUNDS else {"ours": ours.once}
            (found,) = interleaved(wanted, 1)
            if found["ours"] is None:
                raise BenchError("killed-tree: the jobs of a killed tree did not start again")
            mine.append(found["ours"])
            if found.get("tuned") is not None:
                theirs.append(found["tuned"])
            plan.say(
                f"killed-tree {number + 1}: " + ", ".join(f"{name} {_seconds(took)}" for name, took in found.items())
            )
    starts, watched = _tuned_without_a_kill(ground, plan)
    note = (
        f"visibility_timeout {VISIBILITY:g} s. Nobody killed, {plan.size.jobs} jobs of {watched:g} s had {starts} starts "
        f"when a second worker connected {VISIBILITY + 1:g} s after they began"
    )
    if theirs:
        pairs = Row.of_pairs("killed-tree", "celery-redis-tuned", mine[: len(theirs)], theirs, S)
        tuned_row = Row(**{**_fields(pairs), "ours": median(mine), "note": f"{len(theirs)} rounds, {note}"})
    else:
        tuned_row = Row.unanswered(
            "killed-tree", "celery-redis-tuned", median(mine), S, f"not within {patience:g} s, {note}"
        )
    return [
        _unanswered("killed-tree", ground, plan, median(mine), patience),
        tuned_row,
        Row.alone("killed-tree-worst", max(mine), S, f"of {len(mine)}; in every other one the leader was aboard"),
    ]


def _seconds(took: float | None) -> str:
    return "not in time" if took is None else f"{took:.2f} s"


def _unanswered(what: str, ground: Ground, plan: Plan, ours: float, patience: float) -> Row:
    """Plain Celery with Redis' defaults, waited for within bounds."""
    with Plain(ground, "bench-late") as fleet:
        took = KilledTree(fleet, plan.size.jobs).once(patience)
    if took is not None:
        return Row(what, "celery-redis", ours, took, ours / took, ours / took, ours / took, S, "one round")
    return Row.unanswered(
        what,
        "celery-redis",
        ours,
        S,
        f"not within {patience:g} s: its visibility timeout is 3,600 s, and nothing else gives a job back",
    )


def _tuned_without_a_kill(ground: Ground, plan: Plan) -> tuple[int, float]:
    """How often jobs are started that are longer than the visibility timeout, nobody being killed; and how long they were."""
    seconds = 20.0 if plan.short else 30.0
    with Plain(ground, "bench-twice", {"BENCH_VISIBILITY": str(VISIBILITY)}) as fleet:
        fleet.worker()
        jobs = fleet.send(plan.size.jobs, seconds)
        fleet.must(fleet.wait_for_starts(jobs, 1), "the jobs were to start")
        begun = time.monotonic()
        # Later than the timeout: a worker looks for what has timed out when it connects.
        fleet.wait(lambda: time.monotonic() - begun > VISIBILITY + 1, VISIBILITY + 2)
        fleet.worker()
        fleet.wait(lambda: time.monotonic() - begun > seconds, seconds + 1)
        return plan.size.jobs + fleet.started_again(jobs), seconds


# ---- one child -----------------------------------------------------------------------------------------------------------


class KilledChild:
    """A job's own process is killed."""

    def __init__(self, fleet: Ours | Plain) -> None:
        self._fleet = fleet
        self._worker = fleet.worker(4)

    def once(self, patience: float = 30.0) -> float | None:
        """Seconds from the kill until the job has started again; ``None`` when that took longer than `patience`."""
        fleet = self._fleet
        jobs = fleet.send(1)
        fleet.must(fleet.wait_for_starts(jobs, 1), "the job was to start")
        (only,) = jobs
        killed = time.time()
        os.kill(fleet.starts.of(jobs)[only][0].pid, signal.SIGKILL)
        again = fleet.wait_for_starts(jobs, 2, patience)
        took = fleet.nth_starts(jobs, 2)[0] - killed if again else None
        fleet.let_go()
        return took

    def says(self, text: str) -> bool:
        """Whether the worker's log has it."""
        return text in self._worker.text()


def _killed_child(ground: Ground, plan: Plan) -> list[Row]:
    patience = SHORT_PATIENCE if plan.short else PATIENCE / 2
    with ExitStack() as stack:
        ours = KilledChild(stack.enter_context(Ours(ground, embedded=True)))
        rejecting = {"BENCH_REJECT_ON_LOST": "true"}
        theirs = KilledChild(stack.enter_context(Plain(ground, "bench-rejecting", rejecting)))
        plain = KilledChild(stack.enter_context(Plain(ground, "bench-failing")))
        took: dict[str, list[float]] = {"ours": [], "theirs": []}
        for found in interleaved({"ours": ours.once, "theirs": theirs.once}, plan.size.pairs):
            for name, seconds in found.items():
                if seconds is None:
                    raise BenchError(f"killed-child: the job did not start again: {name}")
                took[name].append(seconds)
        answer = plain.once(patience)
        failed = plain.says("WorkerLostError")
    plan.say(f"killed-child: ours {median(took['ours']):.2f} s, told to reject {median(took['theirs']):.2f} s")
    pairs = Row.of_pairs("killed-child", "celery-redis-rejecting", took["ours"], took["theirs"], S)
    if answer is not None:
        raise BenchError(f"killed-child: plain Celery is said to fail the job, and ran it again after {answer:.1f} s")
    return [
        Row.unanswered(
            "killed-child",
            "celery-redis",
            median(took["ours"]),
            S,
            f"not within {patience:g} s"
            + (": its log says that the job has failed, WorkerLostError" if failed else ""),
        ),
        Row(
            **{
                **_fields(pairs),
                "note": "task_reject_on_worker_lost: again at once and without end, however often it kills its process",
            }
        ),
        Row.alone("killed-child-worst", max(took["ours"]), S),
    ]


# ---- a scheduler ---------------------------------------------------------------------------------------------------------


def _killed_scheduler(ground: Ground, plan: Plan) -> list[Row]:
    """Kill after kill; a job sent right after each starts when the standby leads."""
    from tests.support import leader

    took = []
    with Ours(ground, embedded=False) as fleet:
        fleet.worker(4)
        standing = [fleet.fleet.scheduler(), fleet.fleet.scheduler()]
        for _ in range(plan.size.pairs):
            term = leader.term()
            leading = next(member for member in standing if member.pid == leader.pid())
            leading.kill()
            killed = time.time()
            jobs = fleet.send(1)
            fleet.must(fleet.wait_for_starts(jobs, 1), "the standby was to dispatch")
            took.append(fleet.nth_starts(jobs, 1)[0] - killed)
            fleet.let_go()
            if leader.term() != term + 1:
                raise BenchError(f"killed-scheduler: one kill, and the term went from {term} to {leader.term()}")
            standing = [member for member in standing if member is not leading] + [fleet.fleet.scheduler()]
    plan.say(f"killed-scheduler: {median(took):.2f} s, worst {max(took):.2f} s")
    return summed("killed-scheduler", took, note="plain Celery has no scheduler to kill")


def _fields(row: Row) -> dict[str, object]:
    return {name: getattr(row, name) for name in Row.__slots__}


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m bench.recovery`."""
    more = "also what is stopped, stalled, cut off and killed in a stream, and what beats cost: about an hour"
    return command("recovery", str(__doc__), FULL, SHORT, measure, argv, more=more)


if __name__ == "__main__":
    raise SystemExit(main())
