"""One HTTP call to a third party, with every way it can fail turned into that party's own error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import httpx
from django.conf import settings

from tasks.thirdparty.errors import Catalogue


def call(
    errors: Catalogue,
    method: str,
    path: str,
    *,
    request_id: str,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Send one request and return the JSON object of its answer.

    *request_id* stays the same when the request is repeated: it goes out as ``Idempotency-Key`` with what
    changes something, and as ``X-Request-Id`` always.

    Raises:
        ThirdPartyError: the member of *errors* that says what happened.
    """
    sent = {"X-Request-Id": request_id, **(headers or {})}
    if method != "GET":
        sent["Idempotency-Key"] = request_id
    client = _client(
        os.getpid(), settings.SHOP_THIRD_PARTY_URL, settings.SHOP_CONNECT_TIMEOUT, settings.SHOP_READ_TIMEOUT
    )
    try:
        answer = client.request(method, path, json=body, headers=sent)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise errors.unreachable(f"{method} {path}: {error}") from error
    except httpx.TransportError as error:
        # A read that timed out and a connection that broke are the same to us: it may have been done.
        raise errors.timed_out(f"{method} {path}: {type(error).__name__} {error}") from error
    if not answer.is_success:
        raise errors.for_status(
            answer.status_code,
            f"{method} {path}: {answer.status_code} {answer.text[:200]}",
            answer.headers.get("Retry-After"),
        )
    return _json_object(errors, answer, f"{method} {path}")


def _json_object(errors: Catalogue, answer: httpx.Response, call_name: str) -> dict[str, Any]:
    try:
        content = answer.json()
    except ValueError as error:
        raise errors.failed(f"{call_name}: the answer isn't JSON") from error
    if not isinstance(content, dict):
        raise errors.failed(f"{call_name}: the answer isn't an object")
    return content


@lru_cache(maxsize=4)
def _client(pid: int, base_url: str, connect: float, read: float) -> httpx.Client:
    """The process's client.

    Keyed by *pid* because connections shared across a fork mix up two children's answers.
    """
    return httpx.Client(base_url=base_url, timeout=httpx.Timeout(read, connect=connect))
