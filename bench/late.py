"""Plain Celery as projects set it up that want the jobs of dead workers back: `celery -A bench.late`.

Acknowledged late; everything else as it comes, so that Redis' transport gives a job back after its visibility timeout, an hour.
"""

from celery import Celery

from bench import holding
from settings import environment

QUEUE = "bench-late"

# No fixups: where Django's settings are in the environment, Celery would look after its database connections.
app = Celery("bench-late", broker=environment.text("CELERY_BROKER_URL"), fixups=())
app.conf.update(
    task_default_queue=environment.text("BENCH_QUEUE", QUEUE),
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=environment.flag("BENCH_REJECT_ON_LOST", False),
    broker_connection_retry_on_startup=True,
)
_visibility = environment.number("BENCH_VISIBILITY", 0)
if _visibility:
    app.conf.broker_transport_options = {"visibility_timeout": _visibility}

hold = app.task(name=holding.NAME)(holding.hold)
