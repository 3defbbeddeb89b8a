"""Consumption switches per task type and per queue: ``Control`` rows, the truth for every process.

A switch that is off stops dispatch and claims nothing back from a running job. The scheduler reads the switches in every pass, so a
change takes effect within its polling interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from celeriac import conf, events
from celeriac.guard import controls
from celeriac.models import Control

Kind = Literal["type", "queue"]
_PREFIX: Final = "consume:"


@dataclass(frozen=True, slots=True)
class Switches:
    """What is switched off."""

    types: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()

    def off(self, task_type: str, queue: str) -> str | None:
        """Which switch holds a job of *task_type* on *queue* ("type …", "queue …"), ``None`` when it may run."""
        if task_type in self.types:
            return f"type {task_type}"
        if queue in self.queues:
            return f"queue {queue}"
        return None


def read() -> Switches:
    """The switches in force."""
    rows = (
        Control.objects.using(conf.alias()).filter(key__startswith=_PREFIX, value=False).values_list("key", flat=True)
    )
    names = [key[len(_PREFIX) :].split(":", 1) for key in rows]
    return Switches(
        types=frozenset(name for kind, name in names if kind == "type"),
        queues=frozenset(name for kind, name in names if kind == "queue"),
    )


def turn(kind: Kind, name: str, *, on: bool, actor: str, reason: str) -> Control:
    """Switch consumption of a type or a queue on or off. Returns the row with its new version."""
    row = controls.put(f"{_PREFIX}{kind}:{name}", on, actor=actor, reason=reason)
    events.emit("switch.changed", task_type=name if kind == "type" else None, queue=name if kind == "queue" else None,
                target="on" if on else "off", reason=reason, actor=actor)  # fmt: skip
    return row
