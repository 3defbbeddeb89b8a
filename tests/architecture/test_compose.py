"""compose/: valid by the compose schema, and true to the settings and queues it uses. No container engine is needed."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from celeriac.conf import SETTINGS
from tasks.queues import CONCURRENCY

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service.get("image") == "celeriac-shop"}
EXAMPLE = dict(
    line.split("=", 1) for line in (FOLDER / "example.env").read_text().splitlines() if line and line[0] != "#"
)
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def _filled_in(value: str) -> str:
    """Interpolate as compose does, with something in place of what the operator has to give."""
    return _VARIABLE.sub(lambda match: match[3] if match[2] == "-" else "given", str(value))


def _variables_of_settings() -> set[str]:
    read = set()
    for path in (ROOT / "settings").glob("*.py"):
        read |= set(re.findall(r'environment\.(?:text|number|flag|names)\(\s*"(\w+)"', path.read_text()))
    return read


def test_the_file_is_valid_by_the_compose_schema() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", FOLDER / "compose.yaml"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_services_promised_are_there() -> None:
    assert {"postgres", "redis", "web", "scheduler", "flower"} <= set(SERVICES)
    assert SERVICES["scheduler"]["deploy"]["replicas"] == 2


def test_each_queue_has_a_worker_with_the_shops_concurrency() -> None:
    workers = {
        service["command"][service["command"].index("-Q") + 1]: int(
            service["command"][service["command"].index("-c") + 1]
        )
        for service in OURS.values()
        if "worker" in service["command"]
    }
    assert workers == {"default": 2, **CONCURRENCY}


def test_every_variable_given_is_one_that_something_reads() -> None:
    known = _variables_of_settings() | {f"CELERIAC_{key}" for key in SETTINGS} | {"DJANGO_SETTINGS_MODULE"}
    for name, service in OURS.items():
        extra = {"FLOWER_ADDRESS", "FLOWER_BASIC_AUTH"} if name == "flower" else set()
        assert set(service["environment"]) - known == extra, name


def test_every_variable_to_fill_in_is_in_the_example_and_no_secret_has_a_default() -> None:
    text = re.sub(r"^\s*#.*", "", (FOLDER / "compose.yaml").read_text(), flags=re.M)
    asked = {match[1] for match in _VARIABLE.finditer(text)}
    assert asked == set(EXAMPLE)
    for match in _VARIABLE.finditer(text):
        if re.search(r"SECRET|PASSWORD|AUTH", match[1]):
            assert match[2] == "?", match[1]
            assert EXAMPLE[match[1]] == ""


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_production_settings_load_with_what_a_service_is_given(name: str) -> None:
    given = {key: _filled_in(value) for key, value in OURS[name]["environment"].items()}
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from django.conf import settings; assert settings.DATABASES['default']['HOST'] == 'postgres'",
        ],
        check=True,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **given},
    )


@pytest.mark.parametrize("missing", ["DJANGO_SECRET_KEY", "DATABASE_URL"])
def test_production_without_a_secret_is_an_error_that_names_the_variable(missing: str) -> None:
    given = {key: _filled_in(value) for key, value in OURS["web"]["environment"].items() if key != missing}
    refused = subprocess.run(
        [sys.executable, "-c", "import settings.prod"],
        check=False,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True,
        text=True,
    )
    assert refused.returncode != 0
    assert f"Set {missing} in the environment" in refused.stderr


def test_flower_is_not_started_without_authentication() -> None:
    from tasks import app as _shop  # noqa: F401  -- importing the app names the configuration file

    assert os.path.samefile(os.environ["FLOWER_CONF"], FOLDER / "flowerconfig.py")
    for auth, status in (("", 1), ("somebody:secret", 0)):
        ran = subprocess.run(
            [sys.executable, FOLDER / "flowerconfig.py"],
            check=False,
            env={"PATH": os.environ["PATH"], "FLOWER_BASIC_AUTH": auth},
            capture_output=True,
        )
        assert ran.returncode == status


def test_what_is_published_is_published_on_the_loopback_interface_only() -> None:
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_image_holds_what_the_commands_need() -> None:
    copied = set(re.findall(r"^COPY (.+) \S+$", (FOLDER / "Dockerfile").read_text(), re.M))
    words = {word for line in copied for word in line.split()}
    assert {"platform", "dlq_admin", "tasks", "settings", "manage.py", "compose/flowerconfig.py"} <= words
    assert all((ROOT / word).exists() for word in words)
