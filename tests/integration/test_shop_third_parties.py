"""The demo's third parties are real servers, and the shop's clients survive what they do."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tasks.demo import sandbox
from tasks.thirdparty import logistics, partner, sms
from tests.support.shop import Running, running
from tests.support.waiting import wait_until


@pytest.fixture
def simulator(settings: Any) -> Iterator[Running]:
    with running("tasks.demo.simulator", "--port", "0") as simulator:
        settings.SHOP_THIRD_PARTY_URL = simulator.url
        settings.SHOP_CONNECT_TIMEOUT, settings.SHOP_READ_TIMEOUT = 0.5, 0.5
        yield simulator


def send(phone: str = "+12025550142", request_id: str | None = None) -> str:
    return sms.send(phone, "hello", request_id=request_id or str(uuid4()))


def test_each_service_does_what_it_is_for_and_remembers_the_call(simulator: Running) -> None:
    sms.send("+12025550142", "hello", request_id="job-1")
    logistics.book("order-1", "product-1", 2, request_id="order-1")
    record = partner.record("order-1", token="t", request_id="job-2")

    assert (record["id"], record["version"]) == ("order-1", 1)
    for service, request_id in (("sms", "job-1"), ("logistics", "order-1"), ("partner", "job-2")):
        assert simulator.calls(service)["requests"] == {request_id: {"calls": 1, "acted": 1}}


def test_a_repeated_request_is_done_once(simulator: Running) -> None:
    assert send(request_id="job-1") == send(request_id="job-1")
    assert simulator.calls("sms")["requests"]["job-1"] == {"calls": 2, "acted": 1}


def test_what_was_done_before_the_connection_dropped_is_not_done_again(simulator: Running) -> None:
    simulator.behave("sms", mode="drop")
    with pytest.raises(sms.SmsGatewayTimeout):
        send(request_id="job-1")
    simulator.behave("sms", mode="ok")

    send(request_id="job-1")

    assert simulator.calls("sms")["requests"]["job-1"] == {"calls": 2, "acted": 1}


def test_a_failing_service_fails_alone(simulator: Running) -> None:
    simulator.behave("sms", mode="fail")

    with pytest.raises(sms.SmsGatewayFailed):
        send()
    assert partner.record("order-1", token="t", request_id="job-1")["version"] == 1
    assert simulator.calls("sms")["acted"] == 0


def test_a_limit_names_the_wait(simulator: Running) -> None:
    simulator.behave("sms", mode="limit", rate=1)
    send()

    with pytest.raises(sms.SmsGatewayLimited) as limited:
        send()
    assert limited.value.retry_after == 1


def test_a_service_that_hangs_costs_the_read_timeout_and_no_other_service_waits(simulator: Running) -> None:
    simulator.behave("sms", mode="hang")
    with ThreadPoolExecutor(40) as pool:
        hanging = [pool.submit(send) for _ in range(40)]
        before = time.monotonic()
        partner.record("order-1", token="t", request_id="job-1")
        assert time.monotonic() - before < 0.4
        assert all(isinstance(call.exception(), sms.SmsGatewayTimeout) for call in hanging)
    assert simulator.calls("sms")["acted"] == 0


def test_a_slow_service_answers_late(simulator: Running) -> None:
    simulator.behave("sms", mode="slow", delay=0.2)

    before = time.monotonic()
    send()

    assert time.monotonic() - before >= 0.2


def test_a_service_that_dies_for_a_while_comes_back_at_the_same_address(simulator: Running) -> None:
    send()
    simulator.behave("sms", mode="die", delay=0.5)
    wait_until(lambda: not _listens(simulator), what="refused connections")

    with pytest.raises(sms.SmsGatewayUnreachable):
        send(request_id="job-1")
    wait_until(lambda: _listens(simulator), what="a simulator that is back")

    send(request_id="job-1")


def test_a_simulator_that_is_away_still_ends_when_it_is_told_to(simulator: Running) -> None:
    simulator.behave("sms", mode="die", delay=600)
    wait_until(lambda: not _listens(simulator), what="refused connections")

    simulator.process.terminate()

    assert simulator.process.wait(timeout=5) == 0


def test_a_service_that_dies_for_good_ends_its_process(simulator: Running) -> None:
    simulator.behave("sms", mode="hang")
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(send)
        wait_until(lambda: simulator.calls("sms")["calls"], what="a call that hangs")
        simulator.behave("sms", mode="die")
        assert isinstance(hanging.exception(), sms.SmsGatewayTimeout)

    assert simulator.process.wait(timeout=5) == 0


def test_sandbox_values_fail_as_documented(simulator: Running) -> None:
    with pytest.raises(sms.SmsNumberRefused, match="not in service"):
        send(sandbox.PHONE_UNKNOWN)
    for _ in range(sandbox.FLAKY_CALLS):
        with pytest.raises(sms.SmsGatewayFailed):
            send(sandbox.PHONE_FLAKY, "job-1")
    send(sandbox.PHONE_FLAKY, "job-1")
    for _ in range(sandbox.FLAKY_CALLS + 2):
        with pytest.raises(partner.PartnerFailed):
            partner.record(f"{sandbox.RECORD_BROKEN}1", token="t", request_id="job-2")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/control/sms", b'{"mode": "sleepy"}', 400),
        ("POST", "/control/sms", b"[1]", 400),
        ("POST", "/control/sms", b"{", 400),
        ("POST", "/control/fax", b"{}", 404),
        ("GET", "/calls/fax", b"", 404),
        ("PUT", "/sms/messages", b"{}", 501),
    ],
)
def test_a_request_it_does_not_understand_gets_an_answer(
    simulator: Running, method: str, path: str, body: bytes, status: int
) -> None:
    assert httpx.request(method, f"{simulator.url}{path}", content=body).status_code == status


@pytest.mark.parametrize("content", [b"hi", b"[]", b"\xff"])
def test_an_answer_that_is_no_json_object_is_the_services_failure(settings: Any, content: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        settings.SHOP_THIRD_PARTY_URL = f"http://127.0.0.1:{server.getsockname()[1]}"
        call = pool.submit(send)
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
            assert isinstance(call.exception(), sms.SmsGatewayFailed)


def _listens(simulator: Running) -> bool:
    try:
        simulator.calls("sms")
    except httpx.TransportError:
        return False
    return True
