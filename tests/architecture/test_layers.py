"""Who may import whom, as pyproject.toml's contracts say."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_layers_hold(tmp_path: Path) -> None:
    checked = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as main; main()",
            "--no-logo",
            f"--cache-dir={tmp_path}",
        ],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_module_of_celeriac_has_to_be_given_its_layer() -> None:
    layers = next(contract for contract in CONTRACTS if contract["type"] == "layers")
    assert layers["exhaustive"] is True
    assert layers["containers"] == ["celeriac"]


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "platform" / "celeriac" / "py.typed").exists()
