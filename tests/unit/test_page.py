"""The shared page says who runs what, to a reader in another process, and never half of it."""

from __future__ import annotations

import os
import threading
import time

from celeriac.fleet.page import SLOTS, Page


def test_an_idle_page_has_no_entries() -> None:
    assert Page().entries() == []


def test_a_child_that_began_is_seen_with_its_job_fence_and_limit() -> None:
    page = Page()
    before = time.monotonic()
    page.begin(3, pid=77, job=42, fence=5, limit=30.0)

    (entry,) = page.entries()

    assert (entry.slot, entry.pid, entry.job, entry.fence, entry.limit, entry.body_done) == (3, 77, 42, 5, 30.0, False)
    assert before <= entry.begun <= time.monotonic()


def test_a_child_between_jobs_is_not_seen() -> None:
    page = Page()
    page.begin(3, 77, 42, 5, None)
    page.idle(3)
    assert page.entries() == []


def test_a_run_without_a_limit_never_overruns() -> None:
    page = Page()
    page.begin(0, 1, 1, 1, None)
    (entry,) = page.entries()
    assert entry.overrun(entry.begun + 1e9) == 0


def test_a_run_overruns_after_its_limit_and_not_before() -> None:
    page = Page()
    page.begin(0, 1, 1, 1, 10.0)
    (entry,) = page.entries()
    assert entry.overrun(entry.begun + 9.9) == 0
    assert abs(entry.overrun(entry.begun + 12) - 2) < 1e-6


def test_a_body_that_is_done_never_overruns_however_long_its_outcome_waits() -> None:
    page = Page()
    page.begin(0, 1, 1, 1, 10.0)
    page.body_done(0)
    (entry,) = page.entries()
    assert entry.body_done
    assert entry.overrun(entry.begun + 1e6) == 0


def test_the_next_job_of_a_slot_starts_with_its_body_not_done() -> None:
    page = Page()
    page.begin(0, 1, 1, 1, 10.0)
    page.body_done(0)
    page.idle(0)
    page.begin(0, 1, 2, 1, 10.0)
    assert [(entry.job, entry.body_done) for entry in page.entries()] == [(2, False)]


def test_slots_do_not_touch_one_another() -> None:
    page = Page()
    for slot in range(SLOTS):
        page.begin(slot, pid=slot + 1, job=slot + 1000, fence=slot, limit=float(slot))
    page.idle(5)
    page.body_done(7)

    entries = page.entries()

    assert len(entries) == SLOTS - 1
    assert all((e.pid, e.job, e.fence, e.limit) == (e.slot + 1, e.slot + 1000, e.slot, float(e.slot)) for e in entries)
    assert [e.slot for e in entries if e.body_done] == [7]


def test_what_a_forked_child_writes_its_parent_reads() -> None:
    page = Page()
    pid = os.fork()
    if pid == 0:
        page.begin(1, os.getpid(), 42, 7, 1.5)
        os._exit(0)
    os.waitpid(pid, 0)
    (entry,) = page.entries()
    assert (entry.pid, entry.job, entry.fence, entry.limit) == (pid, 42, 7, 1.5)


def test_a_reader_beside_a_writer_never_sees_two_jobs_in_one_entry() -> None:
    page = Page()
    end = threading.Event()

    def write() -> None:
        job = 1
        while not end.is_set():
            page.begin(0, pid=job, job=job, fence=job, limit=float(job))
            job += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = []
        while len(seen) < 500:  # how the two threads take turns is the interpreter's to say
            if (entry := page.read(0)) is not None:
                seen.append(entry)
    finally:
        end.set()
        writer.join()
    assert all(entry.pid == entry.job == entry.fence == entry.limit for entry in seen)


def test_runs_of_one_process_have_slots_of_their_own() -> None:
    """Greenlets share their thread's number; by it they would overwrite each other."""
    page = Page()
    with page.slot(None) as first:
        with page.slot(None) as second:
            assert first != second
        with page.slot(None) as third:
            assert third == second
    with page.slot(7) as of_child:
        assert of_child == 7
