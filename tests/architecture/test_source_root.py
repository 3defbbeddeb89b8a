"""`platform/` is a source root that shares its name with a module of the standard library."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_source_root_is_no_package_because_it_would_shadow_the_standard_library() -> None:
    # With an __init__.py, `import platform` finds this directory wherever the checkout comes first on the path: with
    # manage.py and under pytest, which die with "module 'platform' has no attribute 'system'".
    assert not (ROOT / "platform" / "__init__.py").exists()


def test_the_standard_library_keeps_its_platform_module_in_the_checkout() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import platform; print(platform.system())"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    assert said.strip()


def test_nothing_imports_celeriac_through_its_source_root() -> None:
    guilty = [
        path.relative_to(ROOT)
        for folder in ("platform", "dlq_admin", "tasks", "settings", "tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__) and "platform.celeriac" in path.read_text()
    ]
    assert guilty == []


def test_the_package_is_importable_without_django_being_set_up() -> None:
    subprocess.run(
        [sys.executable, "-c", "import celeriac; celeriac.Policy"],
        check=True,
        cwd=ROOT / "platform",
        env={"PATH": ""},
    )
