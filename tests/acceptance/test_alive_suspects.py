"""Who takes the whole worker along? The jobs aboard are suspects; only the one that did it pays."""

from __future__ import annotations

import time

import pytest

from celeriac import codes
from celeriac.models import DeadLetter, History, Live, Worker
from celeriac.states import Status
from tests.support import effects, leader, probe, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.processes import Member
from tests.support.waiting import wait_until

MAX_LOST = 3


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """A leader judges soon after its start."""
    return {"CELERIAC_SETTLE_IN": "2"}


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, whose evidence is old enough for verdicts."""
    fleet.scheduler()
    leader.wait_until_it_judges(2)


class Supervised:
    """Workers of one queue; whichever ends is started anew, as systemd or an orchestrator does."""

    def __init__(self, fleet: Fleet, queue: str, count: int, slots: int) -> None:
        self._fleet, self._queue, self._slots = fleet, queue, slots
        self.losses = 0
        self.members: list[Member] = fleet.workers(*[(queue, slots)] * count, extra=QUICKLY)

    def look_after(self) -> None:
        """Replace who has ended."""
        for number, member in enumerate(self.members):
            if not member.running:
                self.losses += 1
                self.members[number] = self._fleet.worker(self._queue, self._slots, extra=QUICKLY, wait=False)

    def stop(self) -> None:
        """Let all of them end."""
        for member in self.members:
            member.stop()


@pytest.mark.slow
def test_a_job_that_kills_its_whole_worker_ends_as_a_dead_letter_and_its_neighbours_pay_nothing(
    fleet: Fleet, gate: str
) -> None:
    # Each loss but the last makes one neighbour a suspect, too, which stays aboard its next worker: with as many workers as neighbours
    # there is always one without a suspect. With fewer the poison may have to wait for its place, a minute each time.
    workers = Supervised(fleet, "poisoned", count=4, slots=2)
    neighbours = [probe.hold.apply_async(("neighbour", gate), queue="poisoned") for _ in range(4)]
    watch.comes_to(Status.RUNNING, *neighbours)
    begun = time.monotonic()
    poison = probe.poison.apply_async(("poison",), queue="poisoned")

    def over() -> bool:
        workers.look_after()
        return watch.job(poison).outcome is not None

    wait_until(
        over, timeout=120, every=0.05, what="it has ended", dump=lambda: f"{watch.story(poison)}\n{fleet.logs()}"
    )
    took = time.monotonic() - begun
    workers.look_after()
    job = watch.job(poison)
    print(f"\npoison: dead letter after {took:.1f} s, {effects.count('poison')} runs and {workers.losses} workers")

    assert (job.outcome, job.lost_count, job.retry_count) == ("DEAD_LETTER", MAX_LOST, 0)
    assert effects.count("poison") == workers.losses
    letter = DeadLetter.objects.open().get(job_id=job.seq)
    assert letter.error_code == codes.WORKER_LOST
    causes = list(Worker.objects.filter(state=Worker.State.GONE).values_list("verdict", flat=True))
    assert len(causes) == workers.losses
    assert all("beat" in cause and "lock" in cause for cause in causes), causes
    told = " ".join(History.objects.filter(job_id=job.seq).values_list("reason", flat=True))
    assert "lock" in told, told
    probe.gate(gate).touch()
    assert watch.all_ended(neighbours, dump=fleet.logs) == {"SUCCEEDED": 4}
    assert [(watch.job(each).lost_count, watch.job(each).retry_count) for each in neighbours] == [(0, 0)] * 4
    # The fleet works on.
    assert watch.all_ended([probe.note.apply_async(("after",), queue="poisoned") for _ in range(10)]) == {
        "SUCCEEDED": 10
    }
    workers.stop()


@pytest.mark.slow
def test_who_was_aboard_two_lost_workers_runs_alone_among_suspects_beside_ordinary_jobs(
    fleet: Fleet, gate: str
) -> None:
    first = fleet.worker("twice", 4, extra=QUICKLY)
    jobs = [probe.hold.apply_async(("twice", gate), queue="twice") for _ in range(2)]
    watch.comes_to(Status.RUNNING, *jobs)
    first.kill_tree()
    second = fleet.worker("twice", 4, extra=QUICKLY)
    wait_until(watch.runs_as(2, *jobs), what="both run again at once", dump=fleet.logs)
    second.kill_tree()

    third = fleet.worker("twice", 4, extra=QUICKLY)
    wait_until(lambda: _running(jobs) == [3], what="one of them runs", dump=fleet.logs)
    # Ordinary jobs pass meanwhile; the other suspect has had every chance when they have ended.
    assert watch.all_ended([probe.note.apply_async(("beside",), queue="twice") for _ in range(20)]) == {"SUCCEEDED": 20}
    assert _running(jobs) == [3]
    fourth = fleet.worker("twice", 4, extra=QUICKLY)
    wait_until(lambda: _running(jobs) == [3, 3], what="the other runs on another worker", dump=fleet.logs)
    lives = Live.objects.filter(task_type__endswith=".hold", status=Status.RUNNING)
    assert len({live.worker for live in lives}) == 2
    assert {(live.suspicion, live.lost_count) for live in lives} == {(2, 0)}
    probe.gate(gate).touch()
    assert watch.all_ended(jobs) == {"SUCCEEDED": 2}
    assert (third.stop(), fourth.stop()) == (0, 0)


def _running(jobs: list[object]) -> list[int]:
    seqs = [watch.job(job).seq for job in jobs]
    return list(Live.objects.running().filter(job_id__in=seqs).values_list("attempt", flat=True))
