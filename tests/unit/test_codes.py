"""Error codes have one form, and the platform's own keep it."""

from __future__ import annotations

import pytest

from celeriac import codes
from celeriac.models import DeadLetter, ErrorEvent, Job

OURS = {
    name: value
    for name, value in vars(codes).items()
    if name.isupper() and isinstance(value, str) and name not in ("PATTERN",)
}


@pytest.mark.parametrize("code", OURS.values(), ids=OURS.keys())
def test_every_code_of_the_platform_is_well_formed_and_says_that_it_is_ours(code: str) -> None:
    assert codes.is_well_formed(code)
    assert code.startswith("CELERIAC_")


def test_no_two_names_stand_for_one_code() -> None:
    assert len(set(OURS.values())) == len(OURS)


@pytest.mark.parametrize("code", ["PAY_GATEWAY_TIMEOUT_504", "ORDER_SHORT_409", "A1_B2_200"])
def test_a_code_reads_domain_reason_status(code: str) -> None:
    assert codes.is_well_formed(code)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "TIMEOUT",
        "TIMEOUT_504",
        "pay_gateway_timeout_504",
        "PAY__TIMEOUT_504",
        "PAY_TIMEOUT_604",
        "PAY_TIMEOUT_50",
        "PAY_TIMEOUT",
        "1PAY_TIMEOUT_504",
        "PAY-TIMEOUT-504",
        " PAY_TIMEOUT_504",
        "PAY_TIMEOUT_504\n",
        "ValueError",
    ],
)
def test_anything_else_is_no_code(code: str) -> None:
    assert not codes.is_well_formed(code)


def test_a_code_of_65_characters_is_too_long_and_one_of_64_is_not() -> None:
    longest = "A_" + "B" * (codes.MAX_LENGTH - len("A__500")) + "_500"
    assert len(longest) == 64
    assert codes.is_well_formed(longest)
    assert not codes.is_well_formed("A" + longest)


@pytest.mark.parametrize("model", [Job, ErrorEvent, DeadLetter])
def test_the_longest_code_fits_every_column_that_keeps_one(model: type) -> None:
    assert model._meta.get_field("error_code").max_length == codes.MAX_LENGTH
