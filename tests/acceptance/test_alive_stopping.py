"""Workers go for good reasons and for bad ones while jobs stream in: nothing is lost, and what runs twice was killed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter

import psutil
import pytest

from celeriac.models import DeadLetter, Job, Live, Worker
from celeriac.states import Status
from tests.support import effects, leader, probe, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.processes import Member
from tests.support.waiting import wait_until

SLACK = 4.0
ROUNDS = 5
CHILD_KILLS, TREE_KILLS, STREAM = 30, 3, 450


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """A leader judges soon after its start."""
    return {"CELERIAC_SETTLE_IN": "2"}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader and a standby."""
    fleet.scheduler()
    fleet.scheduler(wait=False)
    leader.wait_until_it_judges(2)


class Stream:
    """Jobs enqueued one by one from a thread while the block lasts."""

    def __init__(
        self, queue: str, word: str, *, seconds: float = 0.0, pause: float = 0.02, most: int = 100_000
    ) -> None:
        self._queue, self._word, self._seconds, self._pause, self._most = queue, word, seconds, pause, most
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self.jobs: list[object] = []

    def _run(self) -> None:
        from django.db import connection

        try:
            while len(self.jobs) < self._most and not self._stop.wait(self._pause):
                self.jobs.append(probe.work.apply_async((self._word, self._seconds), queue=self._queue))
        except BaseException as error:  # re-raised where the block ends
            self._error = error
        finally:
            connection.close()

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


def _ran(jobs: list[object]) -> Counter[int]:
    """How many jobs left how many effects."""
    by_job = effects.by_job()
    return Counter(by_job[str(job.id)] for job in jobs)  # type: ignore[attr-defined]


def _charges(jobs: list[object]) -> int:
    return sum(watch.job(job).lost_count + watch.job(job).retry_count for job in jobs)


# ---- told to go ----------------------------------------------------------------------------------------------------------------


def test_a_drained_worker_ends_what_it_runs_takes_nothing_more_and_goes(fleet: Fleet, gate: str) -> None:
    member = fleet.worker("drained", 2, extra=QUICKLY)
    running = [probe.hold.apply_async(("drained", gate), queue="drained") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *running)
    name = watch.incarnations(member.pid)[0].hostname

    drain = fleet.manage("drain", ["celeriac", "workers", "drain", name, "--reason", "a new release"])
    assert drain.wait(30) == 0, drain.tail()
    wait_until(
        lambda: watch.incarnations(member.pid)[0].state == Worker.State.DRAINING, what="it drains", dump=member.tail
    )
    waiting = [probe.note.apply_async(("drained waiting",), queue="drained") for _ in range(10)]
    successor = fleet.worker("drained", 2, extra=QUICKLY)
    assert watch.all_ended(waiting, dump=fleet.logs) == {"SUCCEEDED": 10}
    assert {watch.job(job).worker for job in waiting} == {watch.incarnations(successor.pid)[0].pk}
    assert watch.runs_as(1, *running)(), "longer than any grace period: a drain has none"
    probe.gate(gate).touch()

    assert watch.all_ended(running) == {"SUCCEEDED": 2}
    assert member.wait(30) == 0
    assert watch.incarnations(member.pid)[0].state == Worker.State.STOPPED
    assert (_ran([*running, *waiting]), _charges([*running, *waiting])) == ({1: 12}, 0)
    assert successor.stop() == 0


def test_a_deploy_that_signals_the_whole_group_and_kills_it_soon_after_costs_nobody_anything(
    fleet: Fleet, gate: str
) -> None:
    member = fleet.worker("deploy", 2, extra=QUICKLY)
    jobs = [probe.hold_without_policy.apply_async(("deploy", gate), queue="deploy") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *jobs)

    os.killpg(member.pid, signal.SIGTERM)
    wait_until(
        lambda: watch.incarnations(member.pid)[0].state == Worker.State.STOPPING, what="it stops", dump=member.tail
    )
    assert watch.runs_as(1, *jobs)()
    member.kill_tree()
    killed = time.monotonic()
    successor = fleet.worker("deploy", 2, extra=QUICKLY)
    wait_until(watch.runs_as(2, *jobs), what="they run again", every=0.01, dump=fleet.logs)
    print(
        f"\ndeploy: interrupted jobs ran again {time.monotonic() - killed:.2f} s later, the start of a worker included"
    )
    probe.gate(gate).touch()

    assert watch.all_ended(jobs) == {"SUCCEEDED": 2}
    assert (_charges(jobs), DeadLetter.objects.filter(job__in=[watch.job(job).seq for job in jobs]).count()) == (0, 0)
    assert successor.stop() == 0


@pytest.mark.slow
def test_a_rolling_restart_under_load_is_not_noticed(fleet: Fleet) -> None:
    workers = fleet.workers(("rolling", 2), ("rolling", 2), extra=QUICKLY)
    with Stream("rolling", "rolling", seconds=0.01) as stream:
        wait_until(lambda: effects.count("rolling") > 20, what="they are being worked off")
        for number, old in enumerate(list(workers)):
            workers.append(fleet.worker("rolling", 2, extra=QUICKLY))
            old.send(signal.SIGQUIT if number == 1 else signal.SIGTERM)
            assert old.wait(30) == 0, old.tail()
        (leading,) = [member for member in fleet.members if member.pid == leader.pid()]
        fleet.scheduler()
        assert leading.stop() == 0
    assert watch.all_ended(stream.jobs, dump=fleet.logs) == {"SUCCEEDED": len(stream.jobs)}

    again = _ran(stream.jobs)
    print(f"\nrolling restart: {len(stream.jobs)} jobs, executions {dict(again)}")
    # Only what a SIGQUIT stopped in the middle may have left its effect twice.
    assert set(again) <= {1, 2}
    assert again[2] <= 2
    assert _charges(stream.jobs) == 0
    for member in workers[2:]:
        assert member.stop() == 0


@pytest.mark.slow
def test_what_is_taken_at_the_very_moment_of_the_shutdown_is_not_lost(fleet: Fleet) -> None:
    seed = random.randrange(2**32)
    print(f"\nseed {seed}")
    chance = random.Random(seed)
    jobs: list[object] = []
    member = fleet.worker("moment", 2)
    for _ in range(ROUNDS):
        successor = fleet.worker("moment", 2, wait=False)
        wait_until(lambda m=successor: "mingle" in m.text() or not m.running, what="its successor is nearly up")
        jobs += [probe.work.apply_async(("moment", 0.0), queue="moment") for _ in range(5)]
        time.sleep(chance.uniform(0, 0.05))  # the fault's own moment, not a wait
        member.send(signal.SIGTERM)
        fleet.wait_for_worker(successor)
        assert member.wait(30) == 0, member.tail()
        member = successor

    assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 5 * ROUNDS}
    assert _ran(jobs) == {1: 5 * ROUNDS}
    assert _charges(jobs) == 0
    assert member.stop() == 0


# ---- killed ------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_kills_of_children_and_trees_in_a_stream_of_short_jobs_lose_none(fleet: Fleet) -> None:
    seed = random.randrange(2**32)
    print(f"\nseed {seed}")
    chance = random.Random(seed)
    workers = fleet.workers(("killed", 4), ("killed", 4), extra=QUICKLY)
    children = trees = 0
    with Stream("killed", "killed", seconds=0.01, pause=0.01, most=STREAM) as stream:
        for number in range(CHILD_KILLS):
            wait_until(lambda n=number: effects.count("killed") > 10 * n, what="it goes on", dump=fleet.logs)
            # A worker whose child is killed while it starts gives up, as Celery's does: its supervisor's business, and not this test's.
            consuming = [member for member in workers if fleet.consumes(member)]
            if consuming:
                children += _kill_a_child(chance.choice(consuming), chance)
            if number % (CHILD_KILLS // TREE_KILLS) == 0:
                which = chance.randrange(len(workers))
                trees += workers[which].running
                workers[which].kill_tree()
                workers[which] = fleet.worker("killed", 4, extra=QUICKLY, wait=False)
        wait_until(lambda: len(stream.jobs) == STREAM, what="all are enqueued")
    ended = watch.all_ended(stream.jobs, timeout=120, dump=fleet.logs)

    again = _ran(stream.jobs)
    twice = sum(count for times, count in again.items() if times > 1)
    print(
        f"{children} children and {trees} trees killed in {STREAM} jobs: {dict(ended)}, {again[0]} lost, {twice} ran more than once"
    )
    assert ended == {"SUCCEEDED": STREAM}, "\n".join(
        watch.story(job) for job in stream.jobs if watch.job(job).outcome != "SUCCEEDED"
    )
    assert again[0] == 0
    assert children > CHILD_KILLS / 2
    assert trees >= TREE_KILLS
    # A child that dies alone charges its job; a tree nobody, or one suspect that was alone aboard.
    assert twice <= CHILD_KILLS + (TREE_KILLS + 1) * 4
    for member in workers:
        fleet.wait_for_worker(member)
        wait_until(lambda m=member: len(m.children()) == 4, what="its pool is whole", dump=member.tail)
        assert member.stop() == 0


def test_heavy_jobs_on_children_that_are_recycled_and_killed_all_end_and_none_runs_on_a_dead_one(fleet: Fleet) -> None:
    member = fleet.worker("heavy", 4, extra=["--max-tasks-per-child", "1", *QUICKLY])
    chance = random.Random(1)
    ballast = "x" * 900_000
    jobs = [probe.carry.apply_async(("heavy", ballast), queue="heavy") for _ in range(24)]
    for number in range(1, 5):
        wait_until(lambda n=number: effects.count("heavy") >= 5 * n, what="it goes on", dump=member.tail)
        _kill_a_child(member, chance)
    assert watch.all_ended(jobs, dump=member.tail) == {"SUCCEEDED": 24}
    assert not Live.objects.running().filter(queue="heavy").exists()
    assert set(Job.objects.filter(queue="heavy").values_list("result", flat=True)) == {"900000"}
    assert member.stop() == 0


def _kill_a_child(member: Member, chance: random.Random) -> bool:
    """Whether there was one to kill: it may not be there yet, or be recycled in this very moment."""
    children = member.children()
    if not children:
        return False
    try:
        chance.choice(children).kill()
    except psutil.NoSuchProcess:
        return False
    return True
