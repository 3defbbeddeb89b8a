"""Celeriac, as a project sets it up: `celery -A bench.ours`."""

from bench import holding
from bench.body import NAME, mark
from celeriac import Celery

QUEUE = "bench-ours"

app = Celery("bench-ours")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_default_queue = QUEUE

noop = app.task(name=NAME)(mark)
hold = app.task(name=holding.NAME)(holding.hold)
