"""How a worker's command line becomes that of its next life, and of its scheduler."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from celeriac.bridge import command
from celeriac.bridge.embedded import scheduler_command


@pytest.mark.parametrize(
    ("started", "globals_"),
    [
        (["python", "-m", "celery", "-A", "shop", "worker", "-Q", "sms"], ["-m", "celery", "-A", "shop"]),
        (["python", "/venv/bin/celery", "--app=shop", "worker"], ["/venv/bin/celery", "--app=shop"]),
        (["python", "-m", "celery", "-A", "worker", "worker"], ["-m", "celery", "-A", "worker"]),
        (
            ["python", "-X", "dev", "-m", "celery", "--workdir", "worker", "-A", "shop", "worker", "-n", "worker"],
            ["-X", "dev", "-m", "celery", "-A", "shop"],
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
    arguments = ["python", "-m", "celery", "--workdir", "src", "-A", "shop", "--workdir=src", "worker"]
    assert command.again(arguments) == [sys.executable, "-m", "celery", "-A", "shop", "worker"]


@pytest.mark.parametrize("options", [[], ["-X", "dev", "-u"], ["-Wdefault"], ["-W", "error"]])
def test_a_script_is_found_from_every_folder(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/srv/shop/bin/celery")
    again = command.again(["python", *options, "bin/celery", "-A", "shop", "worker", "-n", "bin/celery"])
    assert again == [sys.executable, *options, "/srv/shop/bin/celery", "-A", "shop", "worker", "-n", "bin/celery"]


def test_what_was_on_the_path_by_a_relative_name_stays_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "/venv/bin/celery", "worker"])
    monkeypatch.setattr(sys, "path", ["/venv/bin", "/srv/shop/src", "/opt/lib", "/usr/lib/python3"])
    monkeypatch.setenv("PYTHONPATH", "src/:/opt/lib")
    assert command.environment()["PYTHONPATH"] == "/srv/shop/src:/opt/lib"


def test_a_module_that_was_started_elsewhere_finds_the_folder_of_its_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "celery", "worker"])
    monkeypatch.setattr(sys, "path", ["/srv/shop", "/usr/lib/python3"])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert command.environment()["PYTHONPATH"] == "/srv/shop"
    monkeypatch.setattr(sys, "path", [str(tmp_path), "/usr/lib/python3"])
    assert "PYTHONPATH" not in command.environment()
