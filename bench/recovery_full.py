"""What `python -m bench.recovery --full` measures beside: stopped, stalled, cut off, staged, stormed, and what beats cost.

Imports models: Django must be set up.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
from django.db import connection, connections

from bench.command import Plan
from bench.errors import BenchError
from bench.fleets import Jobs, Ours
from bench.ground import Ground
from bench.recovery import KilledTree, summed
from bench.report import Row
from tests.support import leader
from tests.support.databases import cut_sessions
from tests.support.host import NoHost, listening_at, second_host
from tests.support.processes import Member

S = "s"
PAUSE = 10.0  # seconds
TAKEOVERS = 20
CHILD_KILLS, TREE_KILLS, SHORT_JOBS = 200, 20, 3000
INCARNATIONS, WATCHED = 100, 30.0


def measure_more(ground: Ground, plan: Plan) -> list[Row]:
    """The rows, in the order of the list of promises they belong to."""
    rows: list[Row] = []
    for part in (_killed_main, _full_survivor, _paused, _stalled, _database, _cut_off, _schedulers, _storm, _beats):
        ground.clear()
        found = part(ground, plan)
        for row in found:
            plan.say(f"{row.what}: {row.ours:.4g} {row.unit}" + (f" ({row.note})" if row.note else ""))
        rows += found
    return rows


# ---- killed --------------------------------------------------------------------------------------------------------------


def _killed_main(ground: Ground, plan: Plan) -> list[Row]:
    with Ours(ground, embedded=True) as fleet:
        trees = KilledTree(fleet, plan.size.jobs, Member.kill)
        took = [seconds for _ in range(plan.size.pairs) if (seconds := trees.once()) is not None]
    if len(took) < plan.size.pairs:
        raise BenchError("killed-main: the jobs of a killed main process did not start again")
    return summed("killed-main", took, note="the main process alone; its children go with it")


def _full_survivor(ground: Ground, plan: Plan) -> list[Row]:
    """Seconds until what was lost is dispatchable, while no slot is free; it has to start before what waited already."""
    from celeriac.models import Job, Live

    took = []
    with Ours(ground, embedded=False) as fleet:
        fleet.fleet.scheduler()
        survivor = fleet.worker()
        leader.wait_until_it_judges()
        for number in range(plan.size.pairs):
            filling = str(ground.folder() / f"filling-{number}")
            full = fleet.send(8, gate=filling)
            fleet.must(fleet.wait_for_starts(full, 1), "the survivor was to be full")
            doomed = fleet.worker()
            lost = fleet.send(8)
            fleet.must(fleet.wait_for_starts(lost, 1), "the other was to be full")
            waiting = fleet.send(20, 0.01)
            killed = time.time()
            doomed.kill_tree()
            due = lambda: Live.objects.due().filter(priority=10).count() == 8  # noqa: E731
            fleet.must(fleet.wait(due), "what was lost was to be dispatchable")
            took.append(time.time() - killed)
            Path(filling).touch()
            fleet.must(fleet.wait_for_starts(lost, 2), "it was to start")
            fleet.let_go()
            fleet.must(fleet.wait(lambda: not Job.objects.unfinished().exists()), "all was to end")
            last = max(fleet.nth_starts(lost, 2))
            early = [start for start in fleet.nth_starts(waiting, 1) if start < last]
            if early:
                raise BenchError(
                    f"full-survivor: {len(early)} of the backlog started before what was lost, by {last - min(early):.3f} s"
                )
            fleet.unpaid(lost)
        survivor.stop()
    return summed("full-survivor", took, note="until dispatchable; then each was next to start")


# ---- stopped -------------------------------------------------------------------------------------------------------------


def _paused(ground: Ground, plan: Plan) -> list[Row]:
    again = 0
    with Ours(ground, embedded=True) as fleet:
        first = fleet.worker()
        other = None
        for _ in range(plan.size.pairs):
            jobs = fleet.send(plan.size.jobs, 60.0)
            fleet.must(fleet.wait_for_starts(jobs, 1), "the jobs were to start")
            other = other or fleet.worker()
            # Only a scheduler elsewhere can judge who is stopped.
            fleet.settle_in(first, other, leads=other)
            first.freeze()
            _sleep(PAUSE)
            first.thaw()
            _sleep(2.0)  # a verdict that was on its way
            again += fleet.started_again(jobs)
            fleet.let_go()
            fleet.unpaid(jobs)
    return [Row.alone("stopped-10s", again, "starts", f"second starts in {plan.size.pairs} pauses of {PAUSE:g} s")]


def _stalled(ground: Ground, plan: Plan) -> list[Row]:
    from celeriac.models import Job, Worker

    took, back = [], []
    with Ours(ground, embedded=True) as fleet:
        first = fleet.worker()
        for _ in range(plan.size.pairs):
            jobs = fleet.send(plan.size.jobs, 120.0)
            fleet.must(fleet.wait_for_starts(jobs, 1), "the jobs were to start")
            other = fleet.worker()
            fleet.settle_in(first, other, leads=other)
            frozen = time.time()
            first.freeze()
            fleet.must(fleet.wait_for_starts(jobs, 2), "they were to run elsewhere")
            took.append(max(fleet.nth_starts(jobs, 2)) - frozen)
            lives = Worker.objects.filter(pid=first.pid).count()
            fleet.let_go()
            thawed = time.time()
            first.thaw()
            alive = Worker.objects.filter(pid=first.pid, state="alive")
            fleet.must(
                fleet.wait(lambda n=lives, a=alive: a.exists() and a.model.objects.filter(pid=first.pid).count() > n),
                "it was to work on as a new incarnation",
            )
            back.append(time.time() - thawed)
            fleet.unpaid(jobs)
            gone = Worker.objects.filter(state="gone").values_list("pk", flat=True)
            if Job.objects.filter(worker__in=list(gone)).exists():
                raise BenchError("stalled: an incarnation that was given up settled a job")
            other.stop()
    return [*summed("stalled", took, note="stall_after is 15 s"), *summed("stalled-and-back", back)]


# ---- the database ----------------------------------------------------------------------------------------------------------


def _database(ground: Ground, plan: Plan) -> list[Row]:
    """Second starts after each kind of outage; nobody may be given up either."""
    from celeriac.models import Worker

    def restarted() -> None:
        connections.close_all()
        ground.services.restart_postgres()

    def stalled() -> None:
        ground.services.pause_postgres()
        _sleep(PAUSE)
        ground.services.resume_postgres()

    def ended() -> None:
        cut_sessions()

    outages: dict[str, Callable[[], None]] = {
        "sessions-ended": ended,
        "postgres-restarted": restarted,
        "postgres-stalled-10s": stalled,
    }
    rows = []
    with Ours(ground, embedded=True) as fleet:
        trees = [fleet.worker(), fleet.worker()]
        fleet.settle_in(*trees)
        for what, outage in outages.items():
            again = 0
            for _ in range(plan.size.pairs):
                jobs = fleet.send(plan.size.jobs * 2, 60.0)
                fleet.must(fleet.wait_for_starts(jobs, 1), "the jobs were to start")
                outage()
                leader.wait_until_it_judges()
                _sleep(2.0)
                again += fleet.started_again(jobs)
                fleet.let_go()
                fleet.unpaid(jobs)
            gone = Worker.objects.filter(state="gone").count()
            note = f"second starts in {plan.size.pairs} outages under two trees; {gone} incarnations given up"
            rows.append(Row.alone(what, again, "starts", note))
    return rows


# ---- the network -----------------------------------------------------------------------------------------------------------


def _cut_off(ground: Ground, plan: Plan) -> list[Row]:
    took = []
    try:
        with second_host() as host:
            database = str(connection.settings_dict["NAME"])
            with listening_at(ground.services, host.here, database) as there, Ours(ground, embedded=False) as fleet:
                there["CELERIAC_SPOOL_DIR"] = str(ground.folder() / "spool")
                fleet.fleet.scheduler()
                remote = fleet.worker(env=there, inside=host.inside)
                leader.wait_until_it_judges()
                for _ in range(plan.size.pairs):
                    jobs = fleet.send(plan.size.jobs, 60.0)
                    fleet.must(fleet.wait_for_starts(jobs, 1), "the jobs were to start")
                    local = fleet.worker()
                    cut = time.time()
                    host.cut()
                    fleet.must(fleet.wait_for_starts(jobs, 2), "they were to run on this host")
                    took.append(max(fleet.nth_starts(jobs, 2)) - cut)
                    fleet.let_go()
                    fleet.unpaid(jobs)
                    local.stop()
                    host.mend()
                    fleet.fleet.wait_for_worker(remote)
    except NoHost as why:
        plan.say(f"cut-off: {why}")
        return []
    return summed("cut-off", took, note="a network namespace, over TCP")


# ---- schedulers ------------------------------------------------------------------------------------------------------------


def _schedulers(ground: Ground, plan: Plan) -> list[Row]:
    staged, stopped, took = [], [], []
    with Ours(ground, embedded=False) as fleet:
        fleet.worker()
        standing = [fleet.fleet.scheduler(), fleet.fleet.scheduler()]

        def leading() -> Member:
            return next(member for member in standing if member.pid == leader.pid())

        def replace(dead: Member) -> None:
            standing.remove(dead)
            standing.append(fleet.fleet.scheduler())

        for _ in range(plan.size.pairs):
            staged.append(_staged(ground, fleet, leading()))
            replace(next(member for member in standing if not member.running))
        for _ in range(plan.size.pairs):
            frozen = leading()
            began, term = time.time(), leader.term()
            frozen.freeze()
            jobs = fleet.send(1)
            fleet.must(fleet.wait_for_starts(jobs, 1), "the standby was to dispatch")
            stopped.append(fleet.nth_starts(jobs, 1)[0] - began)
            fleet.let_go()
            frozen.thaw()
            _sleep(1.0)
            fleet.must(leader.term() == term + 1, "there was to be one takeover")
        term = leader.term()
        for _ in range(TAKEOVERS):
            dead = leading()
            dead.kill()
            killed = time.time()
            jobs = fleet.send(1)
            fleet.must(fleet.wait_for_starts(jobs, 1), "the standby was to dispatch")
            took.append(fleet.nth_starts(jobs, 1)[0] - killed)
            fleet.let_go()
            replace(dead)
        flapped = leader.term() - term - TAKEOVERS
    return [
        *summed(
            "killed-scheduler-staged", staged, note="the broker stood still, so that jobs were staged and not published"
        ),
        *summed("stopped-scheduler", stopped),
        *summed("takeovers", took, note=f"{TAKEOVERS} kills in a row, {flapped} takeovers more than that"),
    ]


def _staged(ground: Ground, fleet: Ours, doomed: Member) -> float:
    from celeriac.models import Live

    for _ in range(5):
        ground.services.pause_redis()
        try:
            jobs = fleet.send(6)
            # A scheduler whose own look at the broker came in between knows that it is away, and stages nothing: then once more.
            staged = fleet.wait(lambda: Live.objects.dispatched().exists(), 3.0)
            if staged:
                doomed.kill()
        finally:
            ground.services.resume_redis()
        if staged:
            break
        fleet.must(fleet.wait_for_starts(jobs, 1), "jobs were to start once the broker was back")
        fleet.let_go()
    else:
        raise BenchError("killed-scheduler-staged: nothing was staged in five attempts")
    killed = time.time()
    fleet.must(fleet.wait_for_starts(jobs, 1), "the standby was to send what was staged")
    took = max(fleet.nth_starts(jobs, 1)) - killed
    fleet.let_go()
    fleet.unpaid(jobs)
    if fleet.started_again(jobs):
        raise BenchError("killed-scheduler-staged: a job was started twice")
    return took


# ---- a storm ---------------------------------------------------------------------------------------------------------------


def _storm(ground: Ground, plan: Plan) -> list[Row]:
    """Children and trees are killed while short jobs run: what is lost, and what is done twice."""
    from celeriac.models import Job

    chance = random.Random(plan.seed)
    with Ours(ground, embedded=False) as fleet:
        fleet.fleet.scheduler()
        trees = [fleet.worker(4), fleet.worker(4)]
        leader.wait_until_it_judges()
        jobs = fleet.send(SHORT_JOBS, 0.02)
        every = SHORT_JOBS / (CHILD_KILLS + 1)
        children = whole = 0
        for number in range(1, CHILD_KILLS + 1):
            fleet.must(fleet.wait(lambda n=number: _begun(fleet, jobs) >= n * every), "it was to go on")
            # Counted is what was hit; a worker whose child is killed while it starts gives up, and is started anew.
            trees = [tree if tree.running else fleet.worker(4) for tree in trees]
            children += _kill_a_child(trees[chance.randrange(2)], chance)
            if number % (CHILD_KILLS // TREE_KILLS) == 0:
                which = chance.randrange(2)
                if trees[which].running:
                    trees[which].kill_tree()
                    whole += 1
                trees[which] = fleet.worker(4)
        fleet.must(fleet.wait(lambda: not Job.objects.unfinished().exists(), 180), "all were to end")
        ended = Counter(Job.objects.values_list("outcome", flat=True))
        lost = sum(not starts for starts in (fleet.starts.of(jobs).get(job) for job in jobs))
        twice = fleet.started_again(jobs)
        doctor = fleet.fleet.manage("doctor", ["celeriac", "doctor"])
        clean = doctor.wait(60) == 0
    kills = f"{children} children and {whole} trees killed in {SHORT_JOBS} jobs"
    return [
        Row.alone("storm-lost", lost, "jobs", f"{kills}: {dict(ended)}, doctor {'clean' if clean else 'NOT CLEAN'}"),
        Row.alone("storm-twice", twice, "starts", "starts beyond the first: effects that a killed run had left"),
    ]


def _begun(fleet: Ours, jobs: Jobs) -> int:
    return len(fleet.starts.of(jobs))


def _kill_a_child(tree: Member, chance: random.Random) -> bool:
    """Whether there was one to kill."""
    children = tree.children()
    if not children:
        return False
    try:
        chance.choice(children).send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return False
    return True


# ---- beats -----------------------------------------------------------------------------------------------------------------


def _beats(ground: Ground, plan: Plan) -> list[Row]:
    """What the database's processes work for incarnations that beat twice a second, in per cent of one core."""
    with Ours(ground, embedded=False) as fleet:
        idle = _load(ground)
        halves = [fleet.fleet.python(f"beating{n}", ["-m", "bench.beating", str(INCARNATIONS // 2)]) for n in range(2)]
        for half in halves:
            fleet.must(fleet.wait(lambda h=half: "beating:" in h.text(), 90), "they were to beat")
        beating = _load(ground)
        fleet.fleet.scheduler()
        leader.wait_until_it_judges()
        looking = _load(ground)
    return [
        Row.alone(
            "beats", beating, "% of a core", f"{INCARNATIONS} incarnations, {WATCHED:g} s; {idle:.2f} % without them"
        ),
        Row.alone("beats-and-looks", looking, "% of a core", "with a leader that judges them and polls"),
    ]


def _load(ground: Ground) -> float:
    before, began = _worked(ground), time.monotonic()
    _sleep(WATCHED)
    return (_worked(ground) - before) / (time.monotonic() - began) * 100


def _worked(ground: Ground) -> float:
    """Seconds that all processes of the server have been on a processor.

    By the scheduler's own account, in nanoseconds: the ticks of /proc/<pid>/stat are longer than what a session needs in ten beats.
    """
    postmaster = ground.services.postgres.pid
    if postmaster is None:
        raise BenchError("beats: PostgreSQL does not run")
    total = 0.0
    for process in [psutil.Process(postmaster), *psutil.Process(postmaster).children(recursive=True)]:
        try:
            total += int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
        except FileNotFoundError:
            continue
    return total


def _sleep(seconds: float) -> None:
    """The fault's own duration."""
    time.sleep(seconds)
