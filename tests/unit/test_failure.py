"""Any exception becomes strings that can be stored, and what failed alike gets the same fingerprint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celeriac import JobError, codes
from celeriac.settle.failure import MESSAGE, TRACEBACK, describe, fingerprint


class Gateway(JobError):
    code = "PAY_GATEWAY_DOWN_503"


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as exc:
        return exc


def test_an_error_with_a_code_of_its_own_keeps_it() -> None:
    assert describe(Gateway("x")).code == "PAY_GATEWAY_DOWN_503"
    assert describe(Gateway("x", code="PAY_GATEWAY_SLOW_504")).code == "PAY_GATEWAY_SLOW_504"


def test_a_code_that_is_none_is_not_taken_for_one() -> None:
    class Http(Exception):
        code = 404

    class Word(Exception):
        code = "NotFound"

    assert describe(Http()).code == describe(Word()).code == codes.UNCLASSIFIED


def test_the_platforms_own_codes_for_what_everybody_meets() -> None:
    from celery.exceptions import SoftTimeLimitExceeded

    assert describe(MemoryError()).code == codes.OUT_OF_MEMORY
    assert describe(SoftTimeLimitExceeded(3)).code == codes.SOFT_TIME_LIMIT
    assert describe(ValueError()).code == codes.UNCLASSIFIED


def test_a_class_is_named_with_its_module_and_a_builtin_without() -> None:
    assert describe(ValueError("x")).kind == "ValueError"
    assert describe(Gateway("x")).kind == f"{__name__}.Gateway"


def test_the_traceback_says_where() -> None:
    failure = describe(raised(ValueError("here")))
    assert "in raised" in failure.traceback
    assert "ValueError: here" in failure.traceback


def test_a_traceback_that_the_caller_has_is_taken() -> None:
    assert describe(ValueError(), "Traceback: mine").traceback == "Traceback: mine"


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF)))
def test_any_message_can_be_stored(message: str) -> None:
    failure = describe(raised(ValueError(message)))
    for text in (failure.message, failure.traceback, failure.kind):
        assert "\x00" not in text
        text.encode("utf-8")


def test_a_message_of_ten_megabytes_is_cut() -> None:
    failure = describe(raised(ValueError("x" * 10_000_000)))
    assert len(failure.message) <= MESSAGE
    assert len(failure.traceback) <= TRACEBACK


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Circular(Exception):
    pass


def circular() -> Exception:
    error, cause = Circular("a"), Circular("b")
    error.__cause__, cause.__cause__ = cause, error
    return error


def deep() -> Exception:
    error: Exception = ValueError("innermost")
    for _ in range(500):
        error = ExceptionGroup("group", [error])
    return error


@pytest.mark.parametrize("error", [Hostile(), circular(), deep(), SystemExit(3), KeyboardInterrupt()], ids=type)
def test_no_exception_breaks_the_record_of_its_own_attempt(error: BaseException) -> None:
    failure = describe(raised(error))
    assert failure.code == codes.UNCLASSIFIED
    assert failure.kind
    assert failure.message is not None


TRACE = """Traceback (most recent call last):
  File "/srv/{release}/shop/sms.py", line {line}, in notify
    gateway.send(x)
  File "/srv/{release}/shop/gateway.py", line 7, in send
    raise Refused
shop.Refused: {message}
"""


def test_the_same_failure_of_another_release_line_and_order_has_the_same_fingerprint() -> None:
    one = fingerprint("A_B_500", TRACE.format(release="1", line=10, message="order 1"))
    two = fingerprint("A_B_500", TRACE.format(release="2", line=12, message="order 2"))
    assert one == two


def test_another_code_or_another_function_is_another_fingerprint() -> None:
    trace = TRACE.format(release="1", line=10, message="x")
    assert fingerprint("A_B_500", trace) != fingerprint("A_C_500", trace)
    assert fingerprint("A_B_500", trace) != fingerprint("A_B_500", trace.replace("in send", "in post"))


def test_a_fingerprint_fits_its_column() -> None:
    from celeriac.models import ErrorEvent

    assert len(describe(raised(ValueError())).fingerprint) <= ErrorEvent._meta.get_field("stack_trace_hash").max_length
