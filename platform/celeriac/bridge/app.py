"""``Celery``: the app whose parts know the ledger. The one import that a project changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import celery
import click

from celeriac import conf, ids
from celeriac.bridge import policies, propagation
from celeriac.bridge.plain import stays_plain
from celeriac.bridge.task import mixed
from celeriac.enqueue.bell import Bell

_ROUTING: Final = ("queue", "exchange", "exchange_type", "routing_key", "delivery_mode", "priority")

#: Seconds that a connection to Redis waits for an answer. redis-py waits for ever: a worker whose broker accepts and never answers would not
#: even hear that it is told to stop. Nothing that waits for messages blocks so long: those waits ask the socket first.
_REDIS_ANSWERS_WITHIN: Final = 5.0


class _NullConnection:
    """What ``send_task`` wants of a producer's connection."""

    @contextmanager
    def _reraise_as_library_errors(self) -> Iterator[None]:
        yield


class _NullProducer:
    """Handed out where Celery wants a producer to send a task.

    A pooled one would be held while our INSERT runs: ten of them, and the eleventh enqueuing thread waits for ever.
    """

    connection = _NullConnection()


class Celery(celery.Celery):
    """Celery, with a ledger. Takes what ``celery.Celery`` takes.

    ``backend=`` and ``result_backend`` are for tasks outside the ledger; the results of jobs live in the ledger.
    """

    amqp_cls = "celeriac.bridge.door:Door"
    backend_cls = "celeriac.bridge.backend:LedgerBackend"
    control_cls = "celeriac.bridge.control:LedgerControl"
    events_cls = "celeriac.bridge.redacted_events:RedactedEvents"
    log_cls = "celeriac.bridge.logging:LedgerLogging"
    builtin_fixups: ClassVar = {"celeriac.bridge.fixup:fixup"}

    _bell: Bell | None = None

    #: Imported for its effect: it adds the platform's own task when the app is finalized.
    _propagation = propagation

    def on_init(self) -> None:
        """Worker parts that can be added from outside are added here.

        By name: a project makes its app before Django is set up, and these import models.
        """
        self.add_defaults(
            {
                "worker_consumer": "celeriac.bridge.consumer:LedgerConsumer",
                # One message a slot; on Redis the slots themselves are counted.
                "worker_prefetch_multiplier": 1,
                "broker_connection_retry_on_startup": True,
                "worker_cancel_long_running_tasks_on_connection_loss": False,
            }
        )
        self.user_options["worker"].add(
            click.Option(["--without-scheduler"], is_flag=True, help="Never embed a scheduler in this worker.")
        )
        self.steps["worker"].add("celeriac.bridge.bootsteps:Incarnation")
        self.steps["consumer"].add("celeriac.bridge.bootsteps:TakeForFreeSlots")

    def config_from_object(self, obj: Any, *args: Any, **options: Any) -> Any:
        """As in Celery. Django's settings, named as everybody names them, are read without detours."""
        if obj == "django.conf:settings":
            from celeriac.bridge.settings_source import DjangoSettings

            obj = DjangoSettings()
        return super().config_from_object(obj, *args, **options)

    def _load_config(self) -> Any:
        loaded = super()._load_config()
        from celeriac.bridge.settings_source import QuickSettings

        object.__setattr__(self._conf, "__class__", QuickSettings)  # its own __setattr__ would set a key
        return loaded

    def _connection(self, url: Any, *args: Any, **options: Any) -> Any:
        connection = super()._connection(url, *args, **options)
        if connection.get_transport_cls().driver_type == "redis":
            for option in ("socket_timeout", "socket_connect_timeout"):
                connection.transport_options.setdefault(option, _REDIS_ANSWERS_WITHIN)
        return connection

    # ---- enqueueing ----------------------------------------------------------------------------------------------------

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, *more: Any, **options: Any) -> Any:
        """As in Celery; a job without an id of the caller's gets a time-ordered one."""
        if len(more) < 3 and not options.get("task_id") and not stays_plain(self, name):
            options["task_id"] = ids.new()
            options["celeriac_fresh"] = True
        return super().send_task(name, args, kwargs, *more, **options)

    @contextmanager
    def producer_or_acquire(self, producer: Any = None) -> Iterator[Any]:
        """A producer that can't publish: what sends tasks writes rows. Broadcasts and events have pools of their own."""
        yield producer or _NullProducer()

    @contextmanager
    def publishing(self, producer: Any) -> Iterator[Any]:
        """A producer for a task that stays plain Celery: *producer* if it can publish, or else one of the pool."""
        usable = None if isinstance(producer, _NullProducer) else producer
        with super().producer_or_acquire(usable) as able, able.connection._reraise_as_library_errors():
            yield able

    @property
    def ring(self) -> Callable[[], None] | None:
        """Wakes the scheduler, from a thread of this process; ``None`` where the bell is switched off."""
        if not conf.get("RING"):
            return None
        if self._bell is None:
            from celeriac.bridge.ringing import Ringer

            ringer = Ringer(self)
            self._bell = Bell(ringer.publish, ringer.reset)
        return self._bell.ring

    # ---- tasks -----------------------------------------------------------------------------------------------------------

    def _task_from_fun(
        self, fun: Callable[..., Any], name: str | None = None, base: type | None = None, **options: Any
    ) -> Any:
        # Celery 5.7 warns of these as class attributes and will drop them in 6.0; on the instance they go on working.
        routed = {name: options.pop(name) for name in _ROUTING if name in options}
        task = super()._task_from_fun(fun, name=name, base=mixed(base or self.Task), **options)
        for attribute, value in routed.items():
            setattr(task, attribute, value)
        policies.apply(task)
        return task

    def register_task(self, task: Any, **options: Any) -> Any:
        task = task() if isinstance(task, type) else task
        task.__class__ = mixed(type(task))
        task = super().register_task(task, **options)
        policies.apply(task)
        return task
