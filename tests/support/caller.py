"""Another process that calls tasks: ``python -m tests.support.caller '[{"task": …, "args": […], "options": {…}}, …]'``.

Its last line is the ids as a JSON list. Beside Celery's options a call may have moments in seconds from what this process takes for now:
``eta_in``, ``naive_eta_in``, ``expires_at_in``, ``naive_expires_at_in``.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import Any

import django

django.setup()

from django.utils import timezone  # noqa: E402

from tests.support import callee  # noqa: E402

_MOMENTS = {
    "eta_in": ("eta", False),
    "naive_eta_in": ("eta", True),
    "expires_at_in": ("expires", False),
    "naive_expires_at_in": ("expires", True),
}


def _moment(seconds: float, naive: bool) -> datetime:
    moment = datetime.now(tz=timezone.get_current_timezone()) + timedelta(seconds=seconds)
    return timezone.make_naive(moment) if naive else moment


def _call(task: str, args: list[Any] | None = None, options: dict[str, Any] | None = None) -> str:
    asked = dict(options or {})
    for name, (option, naive) in _MOMENTS.items():
        if name in asked:
            asked[option] = _moment(asked.pop(name), naive)
    return str(callee.app.send_task(task, args or [], **asked).id)


if __name__ == "__main__":
    print(json.dumps([_call(**call) for call in json.loads(sys.argv[1])]))
