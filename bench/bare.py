"""Plain Celery on Redis and nothing else, results ignored: `celery -A bench.bare`."""

from celery import Celery

from bench.body import NAME, mark
from settings import environment

QUEUE = "bench-bare"

# No fixups: where Django's settings are in the environment, Celery would look after its database connections.
app = Celery("bench-bare", broker=environment.text("CELERY_BROKER_URL"), fixups=())
app.conf.update(task_default_queue=QUEUE, task_ignore_result=True, broker_connection_retry_on_startup=True)

noop = app.task(name=NAME)(mark)
