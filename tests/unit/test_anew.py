"""How a worker's command line becomes that of its next life, and of its scheduler."""

from __future__ import annotations

import sys

import pytest

from celeriac.bridge.anew import _without_folder
from celeriac.bridge.embedded import scheduler_command


@pytest.mark.parametrize(
    ("started", "globals_"),
    [
        (["python", "-m", "celery", "-A", "shop", "worker", "-Q", "sms"], ["-m", "celery", "-A", "shop"]),
        (["python", "/venv/bin/celery", "--app=shop", "worker"], ["/venv/bin/celery", "--app=shop"]),
        (["python", "-m", "celery", "-A", "worker", "worker"], ["-m", "celery", "-A", "worker"]),
        (
            ["python", "-X", "dev", "-m", "celery", "--workdir", "worker", "-A", "shop", "worker", "-n", "worker"],
            ["-X", "dev", "-m", "celery", "--workdir", "worker", "-A", "shop"],
        ),
    ],
)
def test_the_scheduler_has_the_options_that_stand_before_the_sub_command(
    started: list[str], globals_: list[str]
) -> None:
    assert scheduler_command(started) == [sys.executable, *globals_, "scheduler"]


def test_a_worker_that_no_command_line_describes_has_no_scheduler() -> None:
    assert scheduler_command(["python", "run.py"]) is None
    assert scheduler_command(["python"]) is None


def test_a_folder_is_entered_once() -> None:
    arguments = ["-m", "celery", "--workdir", "src", "-A", "shop", "--workdir=src", "worker"]
    assert _without_folder(arguments) == ["-m", "celery", "-A", "shop", "worker"]
