"""How a worker ends when it is asked to: warm, soft, cold, by signal and by remote control. Nothing is lost, and nobody is charged."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable

import pytest

from celeriac.states import Status
from tests.support import callee, effects, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.processes import Member
from tests.support.waiting import wait_until

Open = Callable[[str], None]


@pytest.fixture(scope="module")
def app_name() -> str:
    """The app whose soft shutdown can be set."""
    return "tests.support.callee"


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader."""
    fleet.scheduler()


@pytest.fixture
def queue() -> str:
    """A queue of the test's own."""
    return f"ends-{uuid.uuid4().hex[:6]}"


def says(member: Member, words: str) -> None:
    """Return once the worker has said so."""
    wait_until(lambda: words in member.text(), what=f"it says {words!r}", dump=member.tail)


def held(word: str, gate: str, queue: str) -> object:
    """A job that runs until the gate opens."""
    result = callee.hold.apply_async((word, gate), queue=queue)
    watch.comes_to(Status.RUNNING, result)
    wait_until(lambda: effects.count(word) == 1, what="it is at it")
    return result


def test_shut_down_by_remote_control_it_finishes_what_runs_and_takes_nothing_more(
    fleet: Fleet, queue: str, gate: str, open_gate: Open
) -> None:
    member = fleet.worker(queue, 1, extra=QUICKLY)
    running = held("warm", gate, queue)

    callee.app.control.shutdown()
    says(member, "shutdown")
    waiting = callee.note.apply_async(("after the shutdown",), queue=queue)
    open_gate(gate)

    job = watch.ended(running)
    assert (job.outcome, job.attempt) == ("SUCCEEDED", 1)
    assert member.wait(45) == 0
    assert watch.job(waiting).attempt == 0
    successor = fleet.worker(queue, 1, extra=QUICKLY)
    assert waiting.get(timeout=60) == "after the shutdown"
    assert successor.stop() == 0


def test_a_soft_shutdown_gives_what_runs_its_time_and_hands_back_what_needs_more(
    fleet: Fleet, queue: str, gate: str, open_gate: Open
) -> None:
    member = fleet.worker(queue, 2, extra=QUICKLY, env={"CALLEE_SOFT": "3"})
    short = uuid.uuid4().hex
    in_time, too_long = held("soft, in time", short, queue), held("soft, too long", gate, queue)

    member.send(signal.SIGQUIT)
    says(member, "Initiating Soft Shutdown")
    open_gate(short)

    job = watch.ended(in_time)
    assert (job.outcome, job.attempt) == ("SUCCEEDED", 1)
    assert watch.job(too_long).status is Status.RUNNING
    member.wait(45)
    successor = fleet.worker(queue, 1, extra=QUICKLY)
    wait_until(watch.runs_as(2, too_long), what="it runs again")
    open_gate(gate)
    job = watch.ended(too_long)
    assert (job.outcome, job.attempt, job.lost_count) == ("SUCCEEDED", 2, 0)
    assert (effects.count("soft, in time"), effects.count("soft, too long")) == (1, 2)
    assert successor.stop() == 0


def test_a_warm_shutdown_becomes_a_cold_one_when_it_is_asked_for(
    fleet: Fleet, queue: str, gate: str, open_gate: Open
) -> None:
    member = fleet.worker(queue, 1, extra=QUICKLY)
    running = held("warm, then cold", gate, queue)

    member.send(signal.SIGTERM)
    says(member, "Warm shutdown")
    assert watch.job(running).status is Status.RUNNING
    member.send(signal.SIGQUIT)

    member.wait(20)  # the warm one would wait for half a minute, and the gate is shut
    successor = fleet.worker(queue, 1, extra=QUICKLY)
    wait_until(watch.runs_as(2, running), what="it runs again")
    open_gate(gate)
    job = watch.ended(running)
    assert (job.outcome, job.attempt, job.lost_count) == ("SUCCEEDED", 2, 0)
    assert successor.stop() == 0


def test_an_interrupt_is_a_warm_shutdown_and_a_second_one_a_cold_one(
    fleet: Fleet, queue: str, gate: str, open_gate: Open
) -> None:
    member = fleet.worker(queue, 1, extra=QUICKLY)
    running = held("interrupted", gate, queue)

    member.send(signal.SIGINT)
    says(member, "Hitting Ctrl+C again will initiate cold shutdown")
    assert member.running
    member.send(signal.SIGINT)

    member.wait(20)
    successor = fleet.worker(queue, 1, extra=QUICKLY)
    wait_until(watch.runs_as(2, running), what="it runs again")
    open_gate(gate)
    job = watch.ended(running)
    assert (job.outcome, job.attempt, job.lost_count) == ("SUCCEEDED", 2, 0)
    assert successor.stop() == 0
