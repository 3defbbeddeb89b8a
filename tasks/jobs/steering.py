"""From a third party's answer to what happens to the job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from celeriac import RetryLater, ToDeadLetter
from tasks.thirdparty.errors import Limited, Refused


@contextmanager
def steering() -> Iterator[None]:
    """Follow what a third party asked for; every other failure is left to the job's policy.

    A limit names its own delay. A refusal will be repeated word for word, so retries would only delay the
    person who has to look at it.

    Raises:
        RetryLater: the third party limits us.
        ToDeadLetter: the third party refused.
    """
    try:
        yield
    except Limited as limited:
        raise RetryLater(limited.retry_after, str(limited), code=limited.code) from limited
    except Refused as refused:
        raise ToDeadLetter(str(refused), code=refused.code) from refused
