"""The front doors."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^\.PHONY: ([a-z-]+)$", MAKEFILE, re.M))


def test_help_lists_every_target() -> None:
    said = subprocess.run(["make", "help"], check=True, cwd=ROOT, capture_output=True, text=True).stdout
    assert set(re.findall(r"^  make ([a-z-]+) +\S", said, re.M)) == TARGETS


def test_help_is_what_make_does_by_itself() -> None:
    assert ".DEFAULT_GOAL := help" in MAKEFILE


def test_the_doors_that_people_are_promised_exist() -> None:
    assert {"setup", "demo", "test", "lint", "types", "layers", "bench", "requirements", "matrix", "clean"} <= TARGETS


def test_no_recipe_names_a_package_index_or_a_path_of_one_machine() -> None:
    for path in (ROOT / "Makefile", *sorted((ROOT / ".ci").iterdir()), ROOT / "pyproject.toml"):
        text = path.read_text()
        assert not re.search(
            r"index-url|find-links|trusted-host|(?<![\w.])/(home|root|Users)/", re.sub(r"--no-emit-\S+", "", text)
        ), path


def test_ci_runs_the_commands_that_people_are_told() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    for command in ("make setup", "make lint", "make types", "make layers", "make test", "make demo"):
        assert command in script
