"""The network takes a host away, or only pretends that a connection is still there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from django.db import connection

from celeriac.models import Worker
from celeriac.states import Status
from tests.support import effects, leader, probe, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.host import Host, NoHost, listening_at, second_host
from tests.support.processes import Member
from tests.support.product import Product
from tests.support.proxy import proxy
from tests.support.waiting import wait_until

SLACK = 4.0
NOTICED = 15.0  # seconds in which a worker has to notice that it consumes nothing


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, on this host."""
    fleet.scheduler(wait=False)


# ---- a host that is cut off ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A second host. Where none can be made, the tests that need one are skipped, loudly."""
    try:
        with second_host() as made:
            yield made
    except NoHost as why:
        pytest.skip(str(why).upper())


@pytest.fixture(scope="module")
def there(product: Product, host: Host) -> Iterator[dict[str, str]]:
    """What finds the database and the broker from the second host, where nothing is spooled for this one."""
    database = str(connection.settings_dict["NAME"])
    with listening_at(product.services, host.here, database) as env:
        yield {**env, "CELERIAC_SPOOL_DIR": str(product.folder / "spool-there")}


@pytest.mark.slow
def test_the_jobs_of_a_host_that_is_cut_off_run_elsewhere_and_joined_again_it_settles_nothing_it_has_lost(
    host: Host, there: dict[str, str], fleet: Fleet, gate: str
) -> None:
    remote = fleet.worker("cut", 4, extra=QUICKLY, env=there, inside=host.inside)
    jobs = [probe.hold.apply_async(("cut", gate), queue="cut") for _ in range(4)]
    watch.comes_to(Status.RUNNING, *jobs)
    local = fleet.worker("cut", 8, extra=QUICKLY)
    leader.wait_until_it_judges()

    host.cut()
    cut = time.monotonic()
    try:
        wait_until(watch.runs_as(2, *jobs), what="they run on this host", every=0.01, dump=fleet.logs)
        took = time.monotonic() - cut
        print(f"\nhost cut off: its 4 jobs ran on another after {took:.2f} s")
        assert took < 6 + SLACK
        gone = watch.incarnations(remote.pid)[0]
        assert gone.state == Worker.State.GONE
        # The keep-alives of its session told on it: no waiting for `stall_after`.
        assert gone.verdict.startswith("gone"), gone.verdict
        probe.gate(gate).touch()  # both runs of each job go on, and the cut-off ones can't say so
        assert watch.all_ended(jobs) == {"SUCCEEDED": 4}
        here = watch.incarnations(local.pid)[0]
        assert [(watch.job(job).worker, watch.job(job).lost_count) for job in jobs] == [(here.pk, 0)] * 4
    finally:
        host.mend()

    wait_until(
        lambda: [w.state for w in watch.incarnations(remote.pid)] == ["gone", "alive"],
        what="it works on as a new incarnation",
        dump=remote.tail,
    )
    assert effects.count("cut") == 8
    assert [(watch.job(job).worker, watch.job(job).attempt) for job in jobs] == [(here.pk, 2)] * 4
    assert local.stop() == 0
    anew = [probe.note.apply_async(("cut anew",), queue="cut") for _ in range(10)]
    assert watch.all_ended(anew, dump=remote.tail) == {"SUCCEEDED": 10}
    assert effects.count("cut anew") == 10
    assert remote.stop() == 0


# ---- a broker that only seems connected --------------------------------------------------------------------------------------


def _health(fleet: Fleet, name: str) -> tuple[int, Any]:
    """Exit status and JSON of the probe that an orchestrator asks."""
    asked = fleet.manage("health", ["celeriac", "health", "worker", "--name", name, "--json"])
    status = asked.wait(30)
    fleet.members.remove(asked)
    return status, json.loads(asked.text().splitlines()[-1])


@pytest.mark.slow
def test_a_worker_that_is_connected_and_consumes_nothing_notices_and_connects_anew_and_a_busy_one_is_well(
    fleet: Fleet, product: Product, gate: str
) -> None:
    broker = urlsplit(product.services.redis_url)
    assert broker.hostname is not None
    assert broker.port is not None
    # Beside it one that consumes nothing because all its slots are taken.
    busy = fleet.worker("busy", 1, extra=QUICKLY, wait=False)
    running = probe.hold.apply_async(("busy", gate), queue="busy")
    with proxy((broker.hostname, broker.port)) as line:
        through = product.services.redis_url.replace(f"{broker.hostname}:{broker.port}", line.address)
        member = fleet.worker("deaf", 2, extra=QUICKLY, env={"CELERY_BROKER_URL": through, "REDIS_URL": through})
        name = watch.incarnations(member.pid)[0].hostname
        before = [probe.note.apply_async(("deaf before",), queue="deaf") for _ in range(4)]
        assert watch.all_ended(before) == {"SUCCEEDED": 4}
        status, said = _health(fleet, name)
        assert status == 0, said
        assert line.open_lines > 0

        watch.comes_to(Status.RUNNING, running)
        waiting = [probe.note.apply_async(("busy waiting",), queue="busy") for _ in range(5)]

        line.stall()
        stalled = time.monotonic()
        jobs = [probe.note.apply_async(("deaf",), queue="deaf") for _ in range(4)]
        wait_until(lambda: _state(member) != "alive", what="it notices", every=0.05, dump=member.tail)
        took = time.monotonic() - stalled
        print(f"\nbroker half open: noticed after {took:.1f} s")
        assert took < NOTICED + SLACK
        status, said = _health(fleet, name)
        assert status != 0, said
        status, said = _health(fleet, watch.incarnations(busy.pid)[0].hostname)
        assert (status, _state(busy)) == (0, "alive"), said
        assert member.running

        line.mend()
        mended = time.monotonic()
        assert watch.all_ended(jobs, dump=member.tail) == {"SUCCEEDED": 4}
        print(f"its jobs had run {time.monotonic() - mended:.1f} s after new connections were let through")
        wait_until(lambda: _state(member) == "alive", what="it says that it is well", dump=member.tail)
        status, said = _health(fleet, name)
        assert status == 0, said
        assert effects.count("deaf") == 4
        assert [watch.job(job).lost_count for job in jobs] == [0] * 4
        assert member.stop() == 0
    status, said = _health(fleet, watch.incarnations(busy.pid)[0].hostname)
    assert (status, _state(busy)) == (0, "alive"), said
    probe.gate(gate).touch()
    assert watch.all_ended([running, *waiting]) == {"SUCCEEDED": 6}


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_whose_broker_never_answers_from_the_start_can_be_stopped_and_works_once_it_answers(
    fleet: Fleet, product: Product, pool: str
) -> None:
    broker = urlsplit(product.services.redis_url)
    assert broker.hostname is not None
    assert broker.port is not None
    with proxy((broker.hostname, broker.port)) as line:
        line.stall()
        through = product.services.redis_url.replace(f"{broker.hostname}:{broker.port}", line.address)
        env = {"CELERY_BROKER_URL": through, "REDIS_URL": through}
        patient, doomed = (
            fleet.worker(f"mute-{pool}", 2, pool=pool, extra=QUICKLY, env=env, wait=False) for _ in range(2)
        )
        for member in (patient, doomed):
            wait_until(
                lambda m=member: "Cannot connect" in m.text(),
                what="it has given a first connection up",
                dump=member.tail,
            )
        asked = time.monotonic()
        assert doomed.stop(30) == 0, doomed.tail()
        print(
            f"\n{pool}, a broker that never answers: told to stop, it had ended after {time.monotonic() - asked:.1f} s"
        )
        job = probe.note.apply_async(("mute",), queue=f"mute-{pool}")
        line.mend()
        mended = time.monotonic()
        assert watch.ended(job, dump=patient.tail).outcome == "SUCCEEDED"
        print(f"its job had run {time.monotonic() - mended:.1f} s after the broker answered")
        wait_until(lambda: _state(patient) == "alive", what="it says that it is well", dump=patient.tail)
        own = str(watch.incarnations(patient.pid)[0].pk)
        assert patient.stop() == 0
        with redis.Redis.from_url(product.services.redis_url) as keys:
            assert not list(keys.scan_iter(f"*{own}*")), "its own queue went with it"


@pytest.mark.slow
def test_a_broker_that_takes_a_long_job_for_lost_has_it_run_only_once(fleet: Fleet, gate: str) -> None:
    env = {"PROBE_VISIBILITY": "1"}
    first = fleet.worker("visible", 1, extra=QUICKLY, env=env)
    job = probe.hold.apply_async(("visible", gate), queue="visible")
    watch.comes_to(Status.RUNNING, job)
    second = fleet.worker("visible", 1, extra=QUICKLY, env=env)
    up = time.monotonic()
    # Both workers' transports look every second for what has been held for longer than one.
    wait_until(lambda: time.monotonic() - up > 4, every=0.2, what="some looks of the transport")
    beside = [probe.note.apply_async(("visible beside",), queue="visible") for _ in range(5)]
    assert watch.all_ended(beside) == {"SUCCEEDED": 5}
    assert watch.runs_as(1, job)()
    probe.gate(gate).touch()
    assert watch.ended(job).outcome == "SUCCEEDED"
    assert (effects.count("visible"), watch.job(job).attempt) == (1, 1)
    assert (first.stop(), second.stop()) == (0, 0)


def _state(member: Member) -> str:
    return str(watch.incarnations(member.pid)[-1].state)
