"""requirements/*.txt are what `make requirements` makes of pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

# Which extras each file pins; `.ci/pin` says the same.
FILES = {
    "base": ["project"],
    "test": ["project", "flower", "sentry", "services", "test"],
    "dev": ["project", "flower", "sentry", "services", "test", "dev"],
    "prod": ["project", "flower", "sentry", "prod"],
}


def _pins(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    found = (re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line) for line in lines)
    return {canonicalize_name(match[1]): match[2] for match in found if match}


def _wanted(name: str) -> list[Requirement]:
    lines = PROJECT["dependencies"] + [line for extra in FILES[name] for line in EXTRAS[extra]]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("name", FILES)
def test_every_requirement_is_pinned_within_its_range(name: str) -> None:
    pins = _pins(name)
    wrong = [
        f"{requirement} is pinned to {pins.get(canonicalize_name(requirement.name))}"
        for requirement in _wanted(name)
        if canonicalize_name(requirement.name) not in pins
        or not requirement.specifier.contains(pins[canonicalize_name(requirement.name)], prereleases=True)
    ]
    assert wrong == [], "run `make requirements`"


@pytest.mark.parametrize("name", FILES)
def test_a_file_pins_what_pyproject_asks_for_directly_and_nothing_it_has_forgotten(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    # pip-compile notes below each pin who asked for it.
    direct = {
        canonicalize_name(match[1])
        for match in re.finditer(
            r"^([A-Za-z0-9._-]+)==.*\n(?:    #.*\n)*?    # .*celeriac \(pyproject.toml\)", text, re.M
        )
    }
    assert direct == {canonicalize_name(requirement.name) for requirement in _wanted(name)}, "run `make requirements`"


def test_no_two_files_disagree() -> None:
    everything = _pins("dev")
    for name in ("base", "test"):
        pins = _pins(name)
        assert {key: everything.get(key) for key in pins} == pins
    prod = _pins("prod")
    assert {key: pin for key, pin in everything.items() if key in prod} == {
        key: pin for key, pin in prod.items() if key in everything
    }


@pytest.mark.parametrize("name", FILES)
def test_pins_name_the_command_that_makes_them_and_no_place_to_fetch_from(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert "#    make requirements" in text
    assert not re.search(r"index-url|find-links|trusted-host|://|@ file", text)


def test_the_command_pins_the_files_that_these_tests_check() -> None:
    script = (ROOT / ".ci" / "pin").read_text()
    for name, extras in FILES.items():
        line = next(line for line in script.splitlines() if line.startswith(f"pin {name} "))
        assert re.findall(r"--extra (\S+)", line) == extras
