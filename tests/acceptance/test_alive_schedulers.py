"""Schedulers die, stop and take over from one another, alone or embedded in workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest
from django.utils import timezone

from celeriac.models import Live, Worker
from celeriac.states import Status
from tests.support import effects, leader, probe, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.processes import Member
from tests.support.product import Product
from tests.support.proxy import Proxy, proxy
from tests.support.waiting import wait_until

SLACK = 4.0
TAKEOVERS = 20


@pytest.fixture(scope="module")
def deaf(product: Product) -> Iterator[Proxy]:
    """A way to the broker that can go dead."""
    broker = urlsplit(product.services.redis_url)
    assert broker.hostname is not None
    assert broker.port is not None
    with proxy((broker.hostname, broker.port)) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A worker."""
    fleet.worker("default", 4, extra=QUICKLY)


@pytest.fixture
def leading(fleet: Fleet, members: None) -> Iterator[list[Member]]:
    """A leader and a standby, in this order; whatever schedulers there are at the end are gone afterwards."""
    first = fleet.scheduler()
    leader.wait_for(1)
    schedulers = [first, fleet.scheduler()]
    yield schedulers
    for member in schedulers:
        member.stop()


def test_a_killed_leaders_standby_sends_what_it_had_staged_and_not_published(
    fleet: Fleet, product: Product, deaf: Proxy
) -> None:
    broker = product.services.redis_url.replace(
        urlsplit(product.services.redis_url).netloc.rpartition("@")[2], deaf.address
    )
    doomed = fleet.scheduler(env={"CELERY_BROKER_URL": broker, "REDIS_URL": broker})
    leader.wait_for(1)
    standby = fleet.scheduler()
    watch.ended(probe.note.delay("by way of the proxy"))
    term = leader.term()

    deaf.stall()
    jobs = [probe.note.delay("staged") for _ in range(4)]
    wait_until(lambda: Live.objects.dispatched().exists(), what="some are staged", every=0.002, dump=doomed.tail)
    assert effects.count("staged") == 0
    doomed.kill()
    killed = time.monotonic()
    assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 4}
    took = time.monotonic() - killed

    print(f"\nleader killed with staged jobs: the standby had all of them run after {took:.2f} s")
    assert took < 2 + SLACK
    assert effects.count("staged") == 4
    assert leader.term() == term + 1
    deaf.mend()
    assert standby.stop() == 0


def test_a_stopped_leader_is_replaced_and_writes_nothing_once_it_goes_on(fleet: Fleet, leading: list[Member]) -> None:
    old, new = leading
    term = leader.term()
    old.freeze()
    frozen = time.monotonic()
    try:
        watch.ended(probe.note.delay("frozen leader"), dump=fleet.logs)
        took = time.monotonic() - frozen
        print(f"\nleader stopped: its standby had a job run after {took:.2f} s")
        assert took < 5 + SLACK
    finally:
        old.thaw()
    jobs = [probe.note.delay("thawed leader") for _ in range(50)]

    assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 50}
    assert effects.count("thawed leader") == 50
    assert (leader.term(), leader.pid()) == (term + 1, new.pid)
    wait_until(
        lambda: "standby" in old.text().rsplit("leading", 1)[-1],
        what="the old one says that it stands by",
        dump=old.tail,
    )
    assert not Live.objects.filter(dispatch_term__lte=term).exists()


def test_twenty_takeovers_in_a_row_change_the_leader_twenty_times(fleet: Fleet, leading: list[Member]) -> None:
    begun = leader.term()
    took, jobs = [], []
    for number in range(1, TAKEOVERS + 1):
        jobs += [probe.note.delay("takeovers") for _ in range(5)]
        leader.cut()
        ended = time.monotonic()
        leader.wait_for(begun + number)
        took.append(time.monotonic() - ended)
    assert watch.all_ended(jobs, dump=fleet.logs) == {"SUCCEEDED": 5 * TAKEOVERS}

    print(f"\n{TAKEOVERS} takeovers: median {sorted(took)[TAKEOVERS // 2]:.2f} s, worst {max(took):.2f} s")
    # One term a takeover: nobody takes the lead from somebody who has it.
    assert leader.term() == begun + TAKEOVERS
    assert max(took) < 2 + SLACK
    assert effects.count("takeovers") == 5 * TAKEOVERS
    assert all(member.running for member in leading)


# ---- embedded ------------------------------------------------------------------------------------------------------------------

EMBEDDED = {"CELERIAC_EMBED_SCHEDULER": "true"}


def _scheduler_of(member: Member) -> psutil.Process | None:
    """The scheduler that the worker has embedded: a child with a command line of its own."""
    for child in member.children():
        try:
            if "scheduler" in child.cmdline():
                return child
        except psutil.NoSuchProcess:
            continue
    return None


def _seated() -> set[int]:
    return {pid for pid in leader.seats().values() if psutil.pid_exists(pid)}


@pytest.fixture(scope="module")
def trees(fleet: Fleet, members: None) -> list[Member]:
    """Three workers and no other scheduler: a worker is all one must start."""
    found = [fleet.worker("embedded", 2, env=EMBEDDED, extra=QUICKLY, wait=False) for _ in range(3)]
    for member in found:
        fleet.wait_for_worker(member)
    return found


def _wait_for_two_of(trees: list[Member]) -> list[psutil.Process]:
    def two() -> list[psutil.Process]:
        found = [each for member in trees if member.running and (each := _scheduler_of(member)) is not None]
        return found if len(found) == 2 and {each.pid for each in found} == _seated() else []

    return wait_until(
        two, what="two schedulers stand ready", dump=lambda: f"{leader.seats()}\n{trees[0].tail()}", every=0.1
    )


def test_of_three_workers_two_have_a_scheduler_ready_and_jobs_run(trees: list[Member]) -> None:
    ready = _wait_for_two_of(trees)
    jobs = [probe.note.apply_async(("embedded",), queue="embedded") for _ in range(20)]

    assert watch.all_ended(jobs) == {"SUCCEEDED": 20}
    assert leader.pid() in {each.pid for each in ready}
    # It is exec'd: it holds nothing of the worker's, and its own command line says what it is.
    assert all("scheduler" in each.cmdline() for each in ready)
    # Those without a seat look every 5 s; by then there would be a third.
    looked = time.monotonic()
    wait_until(lambda: time.monotonic() - looked > 6, every=0.2, what="the next look")
    assert len([each for member in trees if (each := _scheduler_of(member)) is not None]) == 2


def test_a_killed_embedded_scheduler_is_replaced_and_its_worker_works_on(trees: list[Member]) -> None:
    ready = _wait_for_two_of(trees)
    (doomed,) = [each for each in ready if each.pid == leader.pid()]
    os.kill(doomed.pid, signal.SIGKILL)
    killed = time.monotonic()
    watch.ended(probe.note.apply_async(("after the embedded leader",), queue="embedded"))
    took = time.monotonic() - killed
    print(f"\nembedded leader killed: a job ran after {took:.2f} s")
    assert took < 2 + SLACK
    now = _wait_for_two_of(trees)
    print(f"two stood ready again after {time.monotonic() - killed:.2f} s")
    assert doomed.pid not in {each.pid for each in now}
    assert all(member.running for member in trees)


def test_a_stopped_embedded_scheduler_is_killed_and_its_seat_filled_again(trees: list[Member]) -> None:
    ready = _wait_for_two_of(trees)
    (stopped,) = [each for each in ready if each.pid != leader.pid()]
    stopped.suspend()
    begun = time.monotonic()
    watch.ended(probe.note.apply_async(("a standby is stopped",), queue="embedded"))
    wait_until(lambda: not stopped.is_running() or stopped.status() == psutil.STATUS_ZOMBIE, what="it is killed")
    now = _wait_for_two_of(trees)
    print(f"\nembedded standby stopped: two stood ready again after {time.monotonic() - begun:.1f} s")
    assert stopped.pid not in {each.pid for each in now}
    assert all(member.running for member in trees)


def test_a_killed_tree_that_has_the_leader_aboard_costs_as_little_as_another(
    fleet: Fleet, trees: list[Member], gate: str
) -> None:
    leader.wait_until_it_judges()
    standing = _wait_for_two_of(trees)
    # The standby's evidence has to be old enough too: it judges as soon as it leads.
    wait_until(
        lambda: all(time.time() - each.create_time() > 8 for each in standing), every=0.1, what="both have settled in"
    )
    ready = {each.pid for each in standing}
    (doomed,) = [m for m in trees if (each := _scheduler_of(m)) is not None and each.pid == leader.pid()]
    others = [member for member in trees if member is not doomed]
    # Both slots of each worker: so its jobs are known, and two more wait for nobody.
    jobs = [probe.hold.apply_async(("leader aboard", gate), queue="embedded") for _ in range(4)]
    watch.comes_to(Status.RUNNING, *jobs)
    row = watch.incarnations(doomed.pid)[0]
    aboard = [job for job in jobs if watch.live(job).worker == row.pk]  # type: ignore[union-attr]

    killed = time.monotonic()
    doomed.kill_tree()
    wait_until(watch.runs_as(2, *aboard), what=f"its {len(aboard)} jobs run elsewhere", every=0.01, dump=fleet.logs)
    took = time.monotonic() - killed
    print(f"\ntree with the leader killed: its {len(aboard)} jobs ran elsewhere after {took:.2f} s")
    assert aboard
    assert took < 4 + SLACK
    assert watch.incarnations(doomed.pid)[0].state == Worker.State.GONE
    now = {each.pid for each in _wait_for_two_of(others)}
    assert len(now & ready) == 1
    probe.gate(gate).touch()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 4}
    assert [watch.job(job).lost_count for job in jobs] == [0] * 4


def test_an_embedded_scheduler_dies_with_its_worker_and_leaves_with_it(trees: list[Member]) -> None:
    living = [member for member in trees if member.running]
    (first, second) = _wait_for_two_of(living)
    (killed,) = [member for member in living if _scheduler_of(member) == first]
    (told,) = [member for member in living if _scheduler_of(member) == second]
    killed.kill()
    wait_until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE, what="it dies with its worker")
    assert told.stop() == 0
    assert not second.is_running() or second.status() == psutil.STATUS_ZOMBIE


def test_what_was_started_with_a_relative_folder_brings_a_scheduler_and_starts_anew(
    fleet: Fleet, trees: list[Member]
) -> None:
    for member in trees:
        member.stop()
    member = fleet.celery(
        "workdir",
        ["--workdir", "tests", "worker", "-Q", "workdir", "-c", "1", "-n", "workdir@%h", *QUICKLY],
        env=EMBEDDED,
    )
    fleet.wait_for_worker(member)
    wait_until(lambda: _scheduler_of(member) is not None and _seated(), what="it has a scheduler", dump=member.tail)

    given_up = watch.incarnations(member.pid)[0]
    Worker.objects.filter(pk=given_up.pk).update(state=Worker.State.GONE, ended_at=timezone.now(), verdict="by a test")
    fleet.wait_for_worker(member)
    job = probe.note.apply_async(("workdir",), queue="workdir")
    assert watch.ended(job, dump=member.tail).outcome == "SUCCEEDED"
    assert len(watch.incarnations(member.pid)) == 2
    assert member.stop() == 0
