"""Celery's configuration says the same through our quick view of Django's settings as through Celery's own."""

from __future__ import annotations

from typing import Any

import celery

import celeriac


def _configured(kind: Any) -> Any:
    app = kind("configured", set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.conf.task_routes = {"shop.sms": "sms"}
    return app


def test_all_of_it_can_be_listed_as_inspect_and_report_do() -> None:
    ours, theirs = _configured(celeriac.Celery), _configured(celery.Celery)

    listed = ours.conf.table(with_defaults=False, censored=True)
    expected = theirs.conf.table(with_defaults=False, censored=True)

    asked = {key for key in expected if key.startswith("CELERY_")}
    assert {key: listed[key] for key in asked} == {key: expected[key] for key in asked}
    assert listed["task_routes"] == {"shop.sms": "sms"}
    assert {key for key in listed if key.isupper()} == {key for key in expected if key.isupper()}
    assert set(listed["SECRET_KEY"]) == {"*"}


def test_celerys_report_is_written() -> None:
    assert "celeriac" in _configured(celeriac.Celery).bugreport()
