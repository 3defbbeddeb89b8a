"""Django's settings as Celery reads them, without an exception for every key that isn't there.

Celery asks its configuration several times for each task it sends, and most keys are absent: through Django's lazy settings object a miss costs
ten microseconds in exceptions. This mapping looks into the same objects at the time of use, so ``override_settings`` goes on working.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.utils.functional import empty

_ABSENT: Any = object()


class DjangoSettings(Mapping[str, Any]):
    """Read-only view of ``django.conf.settings``, as it is at the moment of each question."""

    def __getitem__(self, key: str) -> Any:
        # Past LazyObject's own __getattribute__, which is most of what a question costs.
        holder: Any = object.__getattribute__(settings, "_wrapped")
        if holder is empty:
            return self._first_use(key)
        while holder is not None:
            values = vars(holder)
            if key in values.get("_deleted", ()):
                break
            value = values.get(key, _ABSENT)
            if value is not _ABSENT:
                return value
            holder = values.get("default_settings")
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dir(settings))

    def __len__(self) -> int:
        return len(dir(settings))

    def __getattr__(self, name: str) -> Any:
        """Celery's loaders look at attributes of a configuration object, too."""
        return getattr(settings, name)

    def _first_use(self, key: str) -> Any:
        try:
            return getattr(settings, key)
        except AttributeError:
            raise KeyError(key) from None
