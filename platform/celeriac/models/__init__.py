"""The ledger's nouns, one a file. No model imports another: foreign keys are named by string."""

from celeriac.models.control import Control
from celeriac.models.dead_letter import DeadLetter
from celeriac.models.error_event import ErrorEvent
from celeriac.models.history import History
from celeriac.models.job import Job
from celeriac.models.lease import Lease
from celeriac.models.live import Live
from celeriac.models.quarantined import Quarantined
from celeriac.models.triage_decision import TriageDecision
from celeriac.models.worker import Worker

__all__ = [
    "Control",
    "DeadLetter",
    "ErrorEvent",
    "History",
    "Job",
    "Lease",
    "Live",
    "Quarantined",
    "TriageDecision",
    "Worker",
]
