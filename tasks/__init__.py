"""The reference project's jobs: a small shop. ``celery -A tasks worker`` starts here.

Django imports this package before its models can be loaded, so nothing here may import one.
"""

from __future__ import annotations

from .app import app

#: The name under which Django projects keep their Celery application.
celery_app = app

__all__ = ["app", "celery_app"]
