"""What is no job, or no job for this worker: set aside with its bytes or held, and the worker goes on."""

from __future__ import annotations

import base64
import json
import pickle
import uuid
from collections.abc import Callable, Iterator

import celery
import pytest

from celeriac.bridge.messages import CONTENT_TYPE
from celeriac.models import Job, Live, Quarantined
from celeriac.states import ParkedReason, Status
from tests.support import effects, probe, watch
from tests.support.fleet import Fleet
from tests.support.product import Product
from tests.support.waiting import wait_until

Open = Callable[[str], None]
NOTE = "tests.support.probe.note"
# What Celery's own message is made of; each case spoils one thing.
ARGUMENTS = [["garbage"], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """One worker that must outlive all of it."""
    fleet.scheduler(wait=False)
    fleet.worker("default", 2)


@pytest.fixture(autouse=True)
def emptied() -> Iterator[None]:
    """A person has looked at the quarantine."""
    yield
    Quarantined.objects.all().delete()


@pytest.fixture(scope="module")
def plain(product: Product) -> Iterator[celery.Celery]:
    """A service that still uses plain Celery on the same broker."""
    with celery.Celery("legacy", broker=product.services.redis_url, set_as_current=False) as app:
        yield app


def _envelope(
    body: bytes, *, headers: object = None, content_type: str = "application/json", **broken: object
) -> bytes:
    task_id = str(uuid.uuid4())
    made: dict[str, object] = {
        "body": base64.b64encode(body).decode(),
        "content-encoding": "utf-8",
        "content-type": content_type,
        "headers": {"task": NOTE, "id": task_id, "lang": "py", "root_id": task_id} if headers is None else headers,
        "properties": {
            "correlation_id": task_id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "default"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }
    return json.dumps({**made, **broken}).encode()


SPOILT: dict[str, tuple[bytes, str]] = {
    "raw bytes": (b"\x00\xff\xfe garbage \x80", "no kombu envelope"),
    "truncated JSON": (_envelope(json.dumps(ARGUMENTS).encode())[:-40], "no kombu envelope"),
    "a list": (b"[1, 2, 3]", "no kombu envelope"),
    "JSON without properties": (b'{"hello": "world"}', "no kombu envelope"),
    "a body of two items": (_envelope(json.dumps([["x"], {}]).encode()), ""),
    "a body that is a number": (_envelope(b"42"), ""),
    "a body that is no JSON": (_envelope(b"{{{"), "can't be decoded"),
    "pickle": (_envelope(pickle.dumps(ARGUMENTS), content_type="application/x-python-serialize"), ""),
    "an unknown content type": (_envelope(b"<job/>", content_type="text/xml"), ""),
    "headers of no task": (_envelope(json.dumps(ARGUMENTS).encode(), headers={"colour": "blue"}), "no task"),
    "an unknown plain task": (
        _envelope(json.dumps(ARGUMENTS).encode(), headers={"task": "legacy.unheard_of", "id": "1", "lang": "py"}),
        "legacy.unheard_of",
    ),
    "a forged handle": (
        _envelope(b"[]", headers={"task": NOTE, "id": "1", "celeriac": ["x", None, 3]}, content_type=CONTENT_TYPE),
        "",
    ),
}


@pytest.mark.parametrize("where", ["default", "celeriac.default"])
@pytest.mark.parametrize("what", SPOILT)
def test_a_message_that_is_no_job_is_quarantined_with_its_bytes_and_the_worker_goes_on(
    fleet: Fleet, product: Product, what: str, where: str
) -> None:
    message, reason = SPOILT[what]
    with product.redis() as broker:
        broker.lpush(where, message)

        found = wait_until(
            lambda: Quarantined.objects.first(), what=f"{what} is in quarantine", dump=lambda: fleet.members[1].tail(30)
        )
        assert found is not None
        body = bytes(found.body)
        assert body == message or body == base64.b64decode(json.loads(message)["body"])
        assert (found.size, reason in found.reason) == (len(body), True), found.reason
        assert Quarantined.objects.count() == 1
        assert probe.add.delay(1, 1).get(timeout=60) == 2
        assert fleet.members[1].running
        assert broker.hlen("unacked") == 0
        assert broker.llen(where) == 0


def test_a_huge_message_is_kept_up_to_the_bound_with_its_true_size(fleet: Fleet, product: Product) -> None:
    with product.redis() as broker:
        broker.lpush("default", b"x" * 300_000)

    found = wait_until(lambda: Quarantined.objects.first(), what="it is in quarantine")

    assert found is not None
    assert (len(found.body), found.size) == (65536, 300_000)


def test_the_doctor_reports_what_is_in_quarantine(product: Product) -> None:
    from celeriac.upkeep import doctor

    with product.redis() as broker:
        broker.lpush("default", b"for the doctor")
    wait_until(lambda: Quarantined.objects.exists(), what="it is in quarantine")

    assert [finding.check for finding in doctor.examine()] == ["quarantine"]


def test_a_stale_copy_of_a_jobs_message_changes_nothing(product: Product, open_gate: Open) -> None:
    gate = uuid.uuid4().hex
    blocking = [probe.hold.delay("blocking", gate) for _ in range(2)]
    watch.comes_to(Status.RUNNING, *blocking)
    result = probe.note.delay("copied")
    watch.comes_to(Status.DISPATCHED, result)
    with product.redis() as broker:
        (message,) = broker.lrange("celeriac.default", 0, -1)
        broker.lpush("celeriac.default", *[message] * 20)
        open_gate(gate)
        assert watch.all_ended([*blocking, result]) == {"SUCCEEDED": 3}
        wait_until(lambda: broker.llen("celeriac.default") == 0, what="the copies are taken")

    assert probe.add.delay(1, 1).get(timeout=60) == 2
    assert effects.count("copied") == 1
    assert Quarantined.objects.count() == 0


def test_a_job_of_an_unknown_type_is_parked_and_runs_once_a_worker_knows_it(fleet: Fleet) -> None:
    result = probe.app.send_task("tests.support.probe.newcomer", ("newcomer",))

    watch.comes_to(Status.PARKED, result)
    live = watch.live(result)
    assert live is not None
    assert live.parked_reason == ParkedReason.NO_HANDLER
    assert Quarantined.objects.count() == 0

    knowing = fleet.worker("default", 1, env={"PROBE_KNOWS_MORE": "1"})
    assert watch.ended(result, dump=fleet.logs).outcome == "SUCCEEDED"
    assert effects.count("newcomer") == 1
    assert knowing.stop() == 0


def test_a_plain_celery_message_that_is_not_adopted_runs_as_plain_celery_and_is_acknowledged_late(
    product: Product, plain: celery.Celery, fleet: Fleet, open_gate: Open
) -> None:
    worker = fleet.worker("as plain", 2, env={"CELERIAC_ADOPT": "false"})
    gate = uuid.uuid4().hex
    jobs = Job.objects.count()

    sent = plain.send_task("tests.support.probe.hold", ("plain", gate), queue="as plain")

    wait_until(lambda: effects.count("plain") == 1, what="it runs", dump=worker.tail)
    with product.redis() as broker:
        assert broker.hlen("unacked") == 1
        open_gate(gate)
        wait_until(lambda: broker.hlen("unacked") == 0, what="it is acknowledged")
    assert effects.by_job()[sent.id] == 1
    assert Job.objects.count() == jobs
    assert not Live.objects.exists()
    wait_until(lambda: probe.app.AsyncResult(sent.id).state == "SUCCESS", what="its result is known")
    assert worker.stop() == 0


def test_a_plain_celery_message_that_fails_is_acknowledged_and_its_failure_known(
    product: Product, plain: celery.Celery
) -> None:
    sent = plain.send_task("tests.support.probe.fail", ("plain failure",), queue="default")

    wait_until(lambda: probe.app.AsyncResult(sent.id).state == "FAILURE", what="its failure is known")
    with product.redis() as broker:
        wait_until(lambda: broker.hlen("unacked") == 0, what="it is acknowledged")
    assert effects.count("plain failure") == 1
