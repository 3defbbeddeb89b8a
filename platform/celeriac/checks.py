"""System checks. Ids: celeriac.E001-E004 settings."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register

from celeriac import conf


@register(Tags.compatibility)
def settings_are_known(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Every key of ``CELERIAC`` is known and of the right kind."""
    return [Error(message, hint=hint, id=check_id) for check_id, message, hint in conf.problems()]
