"""What is raised says what happened, and what steers stands apart from it."""

from __future__ import annotations

import copy
import pickle

import pytest

from celeriac import codes, errors
from celeriac.errors import (
    CeleriacError,
    EnqueueError,
    GiveUp,
    JobError,
    JobExists,
    Moved,
    PayloadNotSerialisable,
    PayloadTooLarge,
    RetryLater,
    Steer,
    ToDeadLetter,
    UnknownQueue,
)


def test_an_error_without_a_message_says_its_docstring() -> None:
    assert str(Moved()) == "Somebody else was first: the job or letter has moved since it was read."
    assert str(UnknownQueue()) == "The queue isn't declared and task_create_missing_queues is off."


def test_what_steers_is_no_error_of_the_platform_and_no_failure_of_a_job() -> None:
    for kind in (RetryLater, GiveUp, ToDeadLetter):
        assert issubclass(kind, Steer)
        assert not issubclass(kind, (CeleriacError, JobError))


def test_every_failure_of_a_job_has_a_well_formed_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, JobError)]
    assert len(kinds) > 4
    for kind in kinds:
        assert codes.is_well_formed(kind.code), kind


def test_a_code_given_to_one_error_leaves_its_class_alone() -> None:
    class Gateway(JobError):
        code = "PAY_GATEWAY_DOWN_503"

    assert Gateway("x", code="PAY_GATEWAY_SLOW_504").code == "PAY_GATEWAY_SLOW_504"
    assert Gateway("x").code == "PAY_GATEWAY_DOWN_503"


def test_an_argument_that_cannot_be_kept_is_named_with_its_type_and_what_to_do() -> None:
    error = PayloadNotSerialisable("args[0]['when'][2]", object())

    assert error.path == "args[0]['when'][2]"
    assert "args[0]['when'][2] is a builtins.object" in str(error)
    assert "Pass an id" in str(error)
    assert isinstance(error, (EnqueueError, TypeError))


def test_a_payload_that_is_too_large_names_both_sizes_and_its_largest_part() -> None:
    said = str(PayloadTooLarge(2_000_000, 1_048_576, "args[1] (1,999,000 bytes)"))

    assert "2,000,000" in said
    assert "1,048,576" in said
    assert "args[1]" in said


def test_a_used_task_id_is_named_with_the_outcome_it_had() -> None:
    error = JobExists("order-42", "SUCCEEDED")

    assert (error.task_id, error.outcome) == ("order-42", "SUCCEEDED")
    assert "'order-42'" in str(error)
    assert "SUCCEEDED" in str(error)


def test_steering_keeps_what_it_was_given() -> None:
    later = RetryLater(12.5, "asked to wait", code="SMS_GATEWAY_LIMITED_429")

    assert (later.after, later.reason, later.code) == (12.5, "asked to wait", "SMS_GATEWAY_LIMITED_429")
    assert str(RetryLater(12.5)) == "retry in 12.5 s"
    assert str(GiveUp()) == "given up by the task"
    assert str(ToDeadLetter()) == "sent to the dead letters by the task"


@pytest.mark.parametrize("error", [JobError("text", 7), errors.WorkerLost("signal 9"), errors.HardTimeLimit("30 s")])
def test_a_failure_of_a_job_survives_pickling_between_processes(error: JobError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes, made on this line
    assert (type(again), again.args, again.code) == (type(error), error.args, error.code)
    assert copy.copy(error).args == error.args
