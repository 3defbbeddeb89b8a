"""Mail goes through a real SMTP server."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.demo import sandbox
from tasks.thirdparty import mail
from tests.support.shop import Running, running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "mail.jsonl"


@pytest.fixture
def post_office(settings: Any, store: Path) -> Iterator[Running]:
    with running("tasks.demo.smtp", "--port", "0", "--store", str(store)) as server:
        use(settings, server.port)
        yield server


def use(settings: Any, port: int) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    settings.SHOP_CONNECT_TIMEOUT, settings.SHOP_READ_TIMEOUT = 0.5, 0.5


def delivered(store: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def test_a_mail_arrives_as_it_was_sent(post_office: Running, store: Path) -> None:
    reference = mail.send("customer-1@mail.example", "Order 1: größer", "Thank you, 谢谢.\n", message_id="job-1")

    (letter,) = delivered(store)
    assert letter["message_id"] == reference == "<job-1@shop.example>"
    assert letter["recipients"] == ["customer-1@mail.example"]
    assert (letter["subject"], letter["text"]) == ("Order 1: größer", "Thank you, 谢谢.\n")


def test_an_unknown_mailbox_is_refused_and_nothing_is_stored(post_office: Running, store: Path) -> None:
    with pytest.raises(mail.MailRefused, match="no such mailbox"):
        mail.send(sandbox.MAIL_UNKNOWN, "Order", "text", message_id="job-1")

    assert delivered(store) == []


def test_greylisting_defers_each_message_twice_and_then_accepts_it(post_office: Running, store: Path) -> None:
    for _ in range(sandbox.FLAKY_CALLS):
        with pytest.raises(mail.MailDeferred, match="greylisted"):
            mail.send(sandbox.MAIL_GREYLISTED, "Order", "text", message_id="job-1")

    mail.send(sandbox.MAIL_GREYLISTED, "Order", "text", message_id="job-1")

    assert [letter["message_id"] for letter in delivered(store)] == ["<job-1@shop.example>"]


def test_a_server_that_is_down_is_unreachable(post_office: Running) -> None:
    post_office.process.terminate()
    assert post_office.process.wait(timeout=5) == 0

    with pytest.raises(mail.MailUnreachable):
        mail.send("customer-1@mail.example", "Order", "text", message_id="job-1")


def test_a_server_that_accepts_and_says_nothing_costs_the_connect_timeout(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        use(settings, silent.getsockname()[1])
        before = time.monotonic()
        with pytest.raises(mail.MailTimeout):
            mail.send("customer-1@mail.example", "Order", "text", message_id="job-1")
    assert time.monotonic() - before < 5


def test_the_server_stops_although_a_client_stays_connected(post_office: Running) -> None:
    with socket.create_connection(("127.0.0.1", post_office.port)) as client:
        assert client.recv(100).startswith(b"220")
        post_office.process.send_signal(signal.SIGINT)
        assert post_office.process.wait(timeout=5) == 0
