"""Plain Celery with results in Django's database, as a project sets it up: `celery -A bench.usual`."""

from celery import Celery

from bench.body import NAME, mark
from settings import environment

QUEUE = "bench-usual"

app = Celery("bench-usual")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_default_queue=QUEUE,
    task_acks_late=True,
    task_track_started=True,
    result_backend="django-db",
)
_reuse = int(environment.number("BENCH_DB_REUSE_MAX", 0))
if _reuse:
    # Read under this very name, whatever the namespace (celery/fixups/django.py).
    app.conf.update({"CELERY_DB_REUSE_MAX": _reuse})

noop = app.task(name=NAME)(mark)
