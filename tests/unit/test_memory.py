"""What is known of a process that has died: its memory, and whether the kernel killed it for that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from celeriac.fleet import memory
from celeriac.fleet.memory import Memory


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control group's event counter."""
    file = tmp_path / "memory.events"
    file.write_text("low 0\noom 1\noom_kill 3\n")
    monkeypatch.setattr(memory, "_counters", lambda: [tmp_path / "not there", file])
    return file


def test_a_process_that_lives_has_memory_and_one_that_is_gone_has_none() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait()
    assert (memory.rss(os.getpid()) or 0) > 2**20
    assert memory.rss(child.pid) is None


def test_the_last_sample_outlives_its_process_until_it_is_asked_for() -> None:
    seen = Memory()
    seen.sample([os.getpid()])
    seen.sample([])
    assert seen.evidence(os.getpid()).startswith("it had ")
    assert seen.evidence(os.getpid()) == ""
    assert seen.total is None


@pytest.mark.usefixtures("counter")
def test_a_death_without_the_oom_killer_says_nothing_of_it() -> None:
    assert memory.oom_kills() == 3
    assert Memory().evidence(None) == ""


def test_a_strike_of_the_oom_killer_is_told_once(counter: Path) -> None:
    seen = Memory()
    counter.write_text("oom_kill 4\n")
    assert seen.evidence(None) == "the kernel's OOM killer struck in its control group (oom_kill 3 -> 4)"
    assert seen.evidence(None) == ""


def test_where_there_is_no_counter_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_counters", list)
    assert memory.oom_kills() is None
    assert Memory().evidence(1) == ""
