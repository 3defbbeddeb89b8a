"""Fixtures for projects' tests; found by pytest as soon as Celeriac is installed.

Nothing of Django or Celery is imported here: pytest loads it in every project.
"""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture
def jobs(db: None) -> ModuleType:
    """:mod:`celeriac.testing`, with access to the database: ``jobs.drain()``, ``jobs.assert_enqueued(…)``, ``jobs.travel(…)``."""
    from celeriac import testing

    return testing
