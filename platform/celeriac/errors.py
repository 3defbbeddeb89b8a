"""What Celeriac raises, and what task code raises to steer it.

Everything that *happened* derives from :class:`CeleriacError`. What a task raises to *steer* derives from :class:`Steer`
and is never swallowed by a retry policy. A docstring is its exception's default message.
"""

from __future__ import annotations

from celeriac import codes


class CeleriacError(Exception):
    """Celeriac could not do what it was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])


# ---- enqueueing ------------------------------------------------------------------------------------------------------


class EnqueueError(CeleriacError):
    """The job was not accepted; nothing was written."""


class PayloadNotSerialisable(EnqueueError, TypeError):
    """An argument can't be kept as JSON.

    ``path`` names the value, for example ``args[0]['when'][2]``. Pass an id and load the object in the task.
    """

    def __init__(self, path: str, value: object) -> None:
        self.path = path
        kind = type(value)
        super().__init__(
            f"{path} is a {kind.__module__}.{kind.__qualname__}, which JSON can't keep. "
            "Pass an id or plain data (str, int, float, bool, None, list, dict, datetime, date, time, timedelta, Decimal, UUID, bytes)."
        )


class PayloadTooLarge(EnqueueError, ValueError):
    """The job's arguments are larger than CELERIAC['MAX_PAYLOAD_BYTES']."""

    def __init__(self, size: int, limit: int, path: str) -> None:
        self.size, self.limit, self.path = size, limit, path
        super().__init__(
            f"The payload is {size:,} bytes, more than the {limit:,} that CELERIAC['MAX_PAYLOAD_BYTES'] allows; the largest part is "
            f"{path}. Store it elsewhere and pass a reference, or raise the limit."
        )


class JobExists(EnqueueError):
    """A job with this task_id has already ended."""

    def __init__(self, task_id: str, outcome: str) -> None:
        self.task_id, self.outcome = task_id, outcome
        super().__init__(
            f"A job with task_id {task_id!r} has already ended ({outcome}). Use another id; a dead letter is redelivered in the admin."
        )


class OptionNotSupported(EnqueueError, ValueError):
    """An option of apply_async that this version doesn't have."""


class UnknownQueue(EnqueueError, ValueError):
    """The queue isn't declared and task_create_missing_queues is off."""


# ---- the ledger ------------------------------------------------------------------------------------------------------


class LedgerError(CeleriacError):
    """The ledger refused a move."""


class Moved(LedgerError):
    """Somebody else was first: the job or letter has moved since it was read.

    Load it again and decide again.
    """


class ConfigurationError(CeleriacError):
    """A setting is wrong. The message names the setting and the remedy."""


# ---- what a job can fail with ----------------------------------------------------------------------------------------


class JobError(Exception):
    """A failure with an error code of its own.

    Subclass it and set ``code``, or pass ``code=``; the code decides whether and when the job is tried again.
    """

    code: str = codes.UNCLASSIFIED

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code


class ResultNotSerialisable(JobError):
    """The task returned a value that JSON can't keep."""

    code = codes.RESULT_UNSERIALISABLE


class ResultTooLarge(JobError):
    """The task returned more than CELERIAC['MAX_RESULT_BYTES']."""

    code = codes.RESULT_TOO_LARGE


class WorkerLost(JobError):
    """The process that ran the job died."""

    code = codes.WORKER_LOST


class HardTimeLimit(JobError):
    """The job ran past its hard time limit and was killed."""

    code = codes.TIME_LIMIT


class PayloadUnreadable(JobError):
    """What is stored as the job's arguments can't be read."""

    code = codes.PAYLOAD_UNREADABLE


# ---- steering --------------------------------------------------------------------------------------------------------


class Steer(Exception):
    """Raised by a task to say what happens to its job, whatever the policy says."""


class RetryLater(Steer):
    """Run the job again after ``after`` seconds.

    Counts as a retry. ``code`` (optional) is recorded as the reason.
    """

    def __init__(self, after: float, reason: str = "", code: str | None = None) -> None:
        if not -1e9 <= after <= 1e9:  # false for NaN, too; below zero means now, as a countdown does
            raise ValueError(f"RetryLater: after is {after!r}; give a number of seconds up to 1e9")
        super().__init__(reason or f"retry in {after:g} s")
        self.after, self.reason, self.code = after, reason, code


class GiveUp(Steer):
    """End the job as FAILED: nobody needs to look at it."""

    def __init__(self, reason: str = "", code: str | None = None) -> None:
        super().__init__(reason or "given up by the task")
        self.reason, self.code = reason, code


class ToDeadLetter(Steer):
    """Put the job into the dead letters now: a person must look at it."""

    def __init__(self, reason: str = "", code: str | None = None) -> None:
        super().__init__(reason or "sent to the dead letters by the task")
        self.reason, self.code = reason, code
