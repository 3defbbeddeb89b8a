"""A worker looks after its embedded scheduler: real processes and seats, and a clock that the test moves."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from celeriac.bridge import embedded
from celeriac.fleet import seats
from celeriac.models import Lease
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db

HOST, PID = "box1", 4711
SLEEPS = "import time; time.sleep(600)"


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], embedded.Embedded]]:
    """A function that gives an `Embedded` whose scheduler is this Python code."""
    begun: list[embedded.Embedded] = []

    def with_code(code: str) -> embedded.Embedded:
        monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", code, "worker"])
        begun.append(embedded.Embedded(HOST, PID, lambda job: job()))
        return begun[-1]

    yield with_code
    for each in begun:
        each.stop(0.1)


def _kept(pid: int, seconds_ago: float) -> None:
    """As if that scheduler had kept seat 1 so long ago."""
    at = timezone.now() - timedelta(seconds=seconds_ago)
    Lease.objects.update_or_create(name="seat-1", defaults={"holder": f"{HOST}:{pid}", "renewed_at": at, "term": 1})


def _end(of: embedded.Embedded, number: int = signal.SIGKILL) -> None:
    process = of._process
    assert process is not None
    process.send_signal(number)
    process.wait(30)


def test_one_that_cannot_start_is_tried_again_less_and_less_often_and_keeps_nobody_from_its_seat(
    begin: Callable[[str], embedded.Embedded],
) -> None:
    ours = begin("raise SystemExit(3)")
    tried: list[float] = []
    now = 0.0
    while now < 120.0:
        ours.look(now)
        if ours.pid is not None:
            tried.append(now)
            assert ours._process is not None
            ours._process.wait(30)
            ours.look(now)
            assert seats.book("somebody else:1") == 1, "the booking was given back"
            seats.give_back("somebody else:1")
        now += 0.5
    assert tried == [0.0, 5.0, 15.0, 35.0, 75.0]


def test_one_that_ends_after_a_while_is_replaced_as_soon_as_its_seat_is_free(
    begin: Callable[[str], embedded.Embedded],
) -> None:
    ours = begin(SLEEPS)
    ours.look(0.0)
    assert ours.pid is not None
    first = ours.pid
    _kept(first, 0.0)
    _end(ours)
    looks = 0
    now = 100.0
    while ours.pid in (None, first):
        ours.look(now)
        looks += 1
        if looks == 3:
            _kept(first, 1.5)
        now += 0.25
        assert now < 105.0
    assert now < 102.0


def test_one_that_is_silent_is_killed_and_one_that_keeps_its_seat_is_not(
    begin: Callable[[str], embedded.Embedded],
) -> None:
    ours = begin(SLEEPS)
    ours.look(0.0)
    process = ours._process
    assert process is not None
    now = 10.0
    # Kept again in time, or silent for a few looks only: it lives.
    for silent in [0.5, 11.0, 12.0, 13.0, 0.5, *range(11, 11 + embedded.SILENT_LOOKS - 1)]:
        _kept(process.pid, silent)
        ours.look(now)
        now += embedded.LOOK_AFTER_EVERY
    assert process.poll() is None
    _kept(process.pid, 20.0)
    ours.look(now)
    assert process.wait(30) == -signal.SIGKILL


def test_one_that_never_sits_down_is_killed_after_a_minute(begin: Callable[[str], embedded.Embedded]) -> None:
    ours = begin(SLEEPS)
    ours.look(0.0)
    process = ours._process
    assert process is not None
    now = 1.0
    while process.poll() is None and now < 100:
        assert now < embedded.SITS_DOWN_IN + embedded.SILENT_LOOKS + 2
        ours.look(now)
        now += embedded.LOOK_AFTER_EVERY
        if now > embedded.SITS_DOWN_IN + embedded.SILENT_LOOKS:
            wait_until(lambda: process.poll() is not None, what="it is killed")
    assert now > embedded.SITS_DOWN_IN
