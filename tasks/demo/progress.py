"""How far the demo's jobs have come, told by the ledger, and what the demo reports at its end."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypedDict

from django.db.models import Count, F, Max, Q

from celeriac import Job
from celeriac.models import History
from celeriac.states import LIVE, Status
from tasks.demo.orders import audit

LOOK_EVERY: Final = 0.25  # seconds


class Report(TypedDict):
    """The demo's last line. Counts are jobs; `lost` and `duplicated` come from the shop's own tables."""

    enqueued: int
    succeeded: int
    retried: int
    parked: int
    dead_lettered: int
    cancelled: int
    lost: int
    duplicated: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Counts:
    """Jobs in each status."""

    by_status: dict[str, int]

    def __getitem__(self, status: Status) -> int:
        return self.by_status.get(status.value, 0)

    @property
    def total(self) -> int:
        """All jobs."""
        return sum(self.by_status.values())

    @property
    def unfinished(self) -> int:
        """Jobs that nobody has to act on and that haven't ended."""
        return sum(self[status] for status in LIVE)

    def line(self) -> str:
        """One line for a person."""
        return "  ".join(f"{status.value.lower()} {self[status]}" for status in Status)


class Progress:
    """Looks at the jobs accepted after it was made, so that a database in use already does no harm."""

    def __init__(self) -> None:
        self._begin = Job.objects.aggregate(last=Max("seq"))["last"] or 0
        self._began = time.monotonic()

    def counts(self) -> Counts:
        """Count now."""
        rows = (
            Job.objects.filter(seq__gt=self._begin)
            .values(status=F("outcome"), where=F("live__status"))
            .annotate(jobs=Count("seq"))
        )
        by_status: dict[str, int] = {}
        for row in rows:
            status = row["status"] or row["where"] or "missing"
            by_status[status] = by_status.get(status, 0) + row["jobs"]
        return Counts(by_status)

    def wait_until_settled(self, limit: float, meanwhile: Callable[[Counts], None]) -> bool:
        """Look, calling `meanwhile` each time, until no job is unfinished; return False after `limit` seconds."""
        deadline = time.monotonic() + limit
        while True:
            counts = self.counts()
            meanwhile(counts)
            if not counts.unfinished:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_EVERY)

    def report(self) -> Report:
        """Count what the last line says."""
        seconds = time.monotonic() - self._began
        counts = self.counts()
        ours = Job.objects.filter(seq__gt=self._begin)
        audited = audit()
        return Report(
            enqueued=counts.total,
            succeeded=counts[Status.SUCCEEDED],
            retried=ours.filter(Q(retry_count__gt=0) | Q(live__retry_count__gt=0)).count(),
            parked=History.objects.filter(job__in=ours, target=Status.PARKED.value).values("job").distinct().count(),
            dead_lettered=counts[Status.DEAD_LETTER],
            cancelled=counts[Status.CANCELLED],
            lost=audited["lost"],
            duplicated=audited["duplicated"],
            seconds=round(seconds, 1),
        )
