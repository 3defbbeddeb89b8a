"""What the admin shows of celeriac; Django's autodiscovery reads this module."""

from __future__ import annotations

from django.contrib import admin

from celeriac.models import Control, DeadLetter, Job, Quarantined, Worker
from dlq_admin.fleet import ControlAdmin, QuarantinedAdmin, WorkerAdmin
from dlq_admin.jobs import JobAdmin
from dlq_admin.letters import DeadLetterAdmin

admin.site.register(DeadLetter, DeadLetterAdmin)
admin.site.register(Job, JobAdmin)
admin.site.register(Worker, WorkerAdmin)
admin.site.register(Quarantined, QuarantinedAdmin)
admin.site.register(Control, ControlAdmin)
