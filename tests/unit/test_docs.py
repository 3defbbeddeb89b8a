"""What the documentation says of the code, the code says too."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

import pytest

from celeriac import conf, events
from celeriac.management.commands.celeriac import COMMANDS
from celeriac.policy import Policy
from celeriac.states import ParkedReason
from tests.support import tables

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "platform" / "celeriac"
REFERENCE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def rows(path: Path) -> list[list[str]]:
    """Cells of every row of every table on a page, without heads and rulers."""
    lines = path.read_text().splitlines()
    found = []
    for number, line in enumerate(lines):
        body = line.startswith("|") and not line.startswith("| ---")
        if body and not (number + 1 < len(lines) and lines[number + 1].startswith("| ---")):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def anchors(path: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


# ---- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ("states.md", "statuses"),
        ("states.md", "arrows"),
        ("states.md", "diagram"),
        ("settings.md", "settings"),
        ("events.md", "events"),
        ("doctor.md", "doctor"),
    ],
)
def test_a_table_in_the_reference_says_what_the_code_says(document: str, name: str) -> None:
    written = tables.places(REFERENCE / document)
    assert written[name] == tables.TABLES[name](), "bring it up to date: python -m tests.support.tables"


def test_every_reason_to_park_a_job_is_explained() -> None:
    text = (REFERENCE / "states.md").read_text()
    assert [reason for reason in ParkedReason if f"`{reason.value}`" not in text] == []


def test_every_published_event_is_emitted_somewhere() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "events.py")
    assert [name for name in events.EVENTS if f'"{name}"' not in source] == []


def test_every_field_that_an_event_carries_is_in_the_logging_reference() -> None:
    known = {name for row in rows(REFERENCE / "logging.md") for name in re.findall(r"`(\w+)`", row[0])}
    emitted = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "emit":
                emitted |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}  # not **names
    assert emitted - known == set()


def test_every_field_in_the_logging_reference_is_written_by_something() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    known = {name for row in rows(REFERENCE / "logging.md") for name in re.findall(r"`(\w+)`", row[0])}
    assert [name for name in known if f"{name}=" not in source and f'"{name}"' not in source] == []


def test_every_command_and_each_of_its_options_is_in_the_command_reference() -> None:
    text = (REFERENCE / "cli.md").read_text()
    for name, module in COMMANDS.items():
        parser = argparse.ArgumentParser()
        module.arguments(parser)
        assert f"`{name}" in text, name
        for option in (option for action in parser._actions for option in action.option_strings):
            assert option in ("-h", "--help") or option in text, f"{name} {option}"


def test_every_option_of_the_demo_is_in_the_command_reference() -> None:
    text = (REFERENCE / "cli.md").read_text()
    declared = re.findall(r'"(--[a-z-]+)"', (ROOT / "tasks" / "management" / "commands" / "demo.py").read_text())
    assert declared
    assert [option for option in declared if option not in text] == []


def test_every_field_of_a_policy_is_explained_where_projects_adopt_it() -> None:
    explained = {row[0].strip("`") for row in rows(ROOT / "docs" / "guides" / "adopting.md")}
    assert set(Policy.__dataclass_fields__) == explained


def test_every_difference_from_celery_says_what_and_why_and_is_there_once() -> None:
    found = rows(REFERENCE / "celery-differences.md")
    assert len(found) > 40
    assert all(len(row) == 3 and all(row) for row in found)
    assert len({row[0] for row in found}) == len(found)


# ---- every page --------------------------------------------------------------------------------------------------------


@page
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{path.name} → {target}"
        if anchor:
            assert anchor in anchors(there), f"{path.name} → {target}"


@page
def test_every_file_that_is_named_is_there(path: Path) -> None:
    named = re.findall(r"\b((?:tests|docs|compose|bench|platform)/[\w./-]+\.(?:py|md|yaml))\b", path.read_text())
    named += [
        f"platform/celeriac/{name}"
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text())
        if not name.startswith(("tests/", "docs/", "compose/", "bench/", "platform/"))
    ]
    assert [name for name in named if not (ROOT / name).exists()] == []


@page
def test_every_setting_that_is_named_exists(path: Path) -> None:
    named = set(re.findall(r'CELERIAC\["(\w+)"\]', path.read_text()))
    assert named <= set(conf.SETTINGS)


@page
def test_every_target_of_make_that_is_named_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", path.read_text(), re.MULTILINE))
    assert named <= targets


@page
def test_every_sub_command_that_is_named_exists(path: Path) -> None:
    named = set(re.findall(r"manage\.py celeriac ([a-z]+)", path.read_text()))
    assert named <= set(COMMANDS)


@page
def test_every_python_example_can_be_read_by_python(path: Path) -> None:
    for code in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        compile(code, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


# ---- tests that the README sends people to -------------------------------------------------------------------------------


def test_every_test_that_the_readme_names_by_a_word_finds_one() -> None:
    for file, word in re.findall(r"(tests/[\w/]+\.py) -k (\w+)", (ROOT / "README.md").read_text()):
        names = re.findall(r"^def (test_\w+)", (ROOT / file).read_text(), re.MULTILINE)
        assert any(word in name for name in names), f"{file} -k {word}"


# ---- decisions -----------------------------------------------------------------------------------------------------------


def test_decisions_are_numbered_without_a_gap_and_listed() -> None:
    found = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    assert [int(path.name[:4]) for path in found] == list(range(1, len(found) + 1))
    listed = (ROOT / "docs" / "adr" / "README.md").read_text()
    assert [path.name for path in found if f"({path.name})" not in listed] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("0*.md")), ids=lambda path: path.stem)
def test_a_decision_says_its_context_what_was_decided_and_what_follows(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert text.startswith(f"# {int(path.name[:4])}. ")
