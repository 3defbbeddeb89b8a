"""Celery's configuration, without an exception for every key that isn't there.

Celery asks its configuration several times for each task that it sends, and most keys are absent: it walks through some five mappings with
three spellings of each key, and through Django's lazy settings object a miss costs ten microseconds. What is here looks into the same objects at
the time of use and gives the same answers; ``override_settings`` and changes at run time go on working.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from celery.app.utils import Settings
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

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or *default*."""
        try:
            return self[key]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        # Settings are written in capitals; what else the object has (methods) can't be asked for by key.
        return (name for name in dir(settings) if name.isupper())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getattr__(self, name: str) -> Any:
        """Celery's loaders look at attributes of a configuration object, too."""
        return getattr(settings, name)

    def _first_use(self, key: str) -> Any:
        try:
            return getattr(settings, key)
        except AttributeError:
            raise KeyError(key) from None


class QuickSettings(Settings):
    """Celery's settings view with the spellings of each key remembered. Becomes the class of an app's loaded configuration."""

    def __getitem__(self, key: str) -> Any:
        spellings = self.__dict__.setdefault("_spellings", {})
        variants = spellings.get(key)
        if variants is None:
            variants = spellings[key] = tuple(dict.fromkeys(self._key(k) for k in self._to_keys(key)))
        for mapping in self.maps:
            look = mapping.get
            for variant in variants:
                value = look(variant, _ABSENT)
                if value is not _ABSENT:
                    return value
        return super().__getitem__(key)
