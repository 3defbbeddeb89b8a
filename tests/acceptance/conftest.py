"""One fleet of the probe app a module, and a clean bill from the doctor at its end."""

import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from celeriac import conf
from tests.support import effects, probe
from tests.support.fleet import Fleet
from tests.support.product import Product
from tests.support.waiting import wait_until

DOCTOR_LIMIT = 60  # seconds


@pytest.fixture(scope="module")
def paper(product: Product) -> Iterator[Path]:
    """The folder of gates and of effects that are written while there is no database; the probe's jobs find it too."""
    folder = product.folder / "probe"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBE_FOLDER", str(folder))
        yield folder


@pytest.fixture(scope="module")
def overrides() -> dict[str, str]:
    """What a module's fleet has in its environment beside the usual; modules that want something have a fixture of this name."""
    return {}


@pytest.fixture(scope="module")
def app_name() -> str:
    """What ``celery -A`` is given; modules that want another app have a fixture of this name."""
    return "tests.support.probe"


@pytest.fixture(scope="module")
def fleet(product: Product, paper: Path, overrides: dict[str, str], app_name: str) -> Iterator[Fleet]:
    """A fleet of the probe app without members yet. Before it goes, the doctor must find nothing."""
    effects.create()
    with product.fleet(app=app_name, env={"PROBE_FOLDER": str(paper), **overrides}) as fleet:
        yield fleet
        finding = wait_until(lambda: examined(fleet), what="the doctor has looked", timeout=DOCTOR_LIMIT)
        assert finding["clean"], f"{json.dumps(finding, indent=1)}\n{fleet.logs()}"


def examined(fleet: Fleet) -> dict[str, object]:
    """What ``manage.py celeriac doctor --json`` says."""
    member = fleet.manage("doctor", ["celeriac", "doctor", "--json"])
    status = member.wait(DOCTOR_LIMIT)
    said: dict[str, object] = json.loads(member.text().splitlines()[-1])
    assert status == (0 if said["clean"] else 1), member.tail()
    return said


@pytest.fixture
def open_gate(paper: Path) -> Callable[[str], None]:
    """A function that lets through whoever waits at the gate of that name."""

    def let_through(name: str) -> None:
        probe.gate(name).touch()

    return let_through


@pytest.fixture
def gate(open_gate: Callable[[str], None]) -> Iterator[str]:
    """The name of a gate that is open when the test is over."""
    name = uuid.uuid4().hex
    yield name
    open_gate(name)


@pytest.fixture(autouse=True)
def _no_spool_of_our_own() -> Iterator[None]:
    """This process enqueues only; what it spools would be somebody else's loss."""
    yield
    folder = Path(conf.spool_dir())
    assert not folder.exists() or not os.listdir(folder)
