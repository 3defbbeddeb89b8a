"""What ``celeriac adopt`` says of a project."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import celery
import pytest
from django.core.management import call_command
from pytest_django import Settings

from celeriac import Celery, Policy
from celeriac.bridge.survey import CHANGES, DECIDE, FINE, Remark, look_at
from celeriac.errors import ConfigurationError


class Base(celery.Task):
    """A project's own."""


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("surveyed", broker="redis://127.0.0.1", set_as_current=False) as app:
        app.task(name="surveyed.once")(_nothing)
        app.task(name="surveyed.late", acks_late=True)(_nothing)
        app.task(name="surveyed.decided", policy=Policy(on_lost="review"))(_nothing)
        app.task(name="surveyed.based", base=Base, acks_late=True, rate_limit="10/m")(_nothing)
        app.task(name="surveyed.pickled", acks_late=True, serializer="pickle")(_nothing)
        yield app


def own(remark: Remark) -> list[str]:
    """Those of this app: shared tasks of whatever else is imported are in every app."""
    return [name for name in remark.names if name.startswith("surveyed.")]


def _nothing() -> None:
    pass


def named(remarks: list[Remark], words: str) -> Remark:
    (found,) = [remark for remark in remarks if words in remark.what]
    return found


def test_tasks_that_were_at_most_once_are_to_be_decided_on(app: Celery, settings: Settings) -> None:
    settings.CELERIAC = {}
    remark = named(look_at(app), "at most once")
    assert (remark.kind, own(remark)) == (DECIDE, ["surveyed.once"])

    settings.CELERIAC = {"ON_LOST": "review"}
    assert not [r for r in look_at(app) if "at most once" in r.what]


def test_base_classes_rates_and_serializers_are_seen(app: Celery) -> None:
    remarks = look_at(app)
    assert own(named(remarks, "base class")) == ["surveyed.based"]
    assert (named(remarks, "rate_limit").kind, own(named(remarks, "rate_limit"))) == (CHANGES, ["surveyed.based"])
    assert (named(remarks, "serializer").kind, own(named(remarks, "serializer"))) == (DECIDE, ["surveyed.pickled"])


def test_tasks_that_are_left_out_are_named_and_nothing_is_to_be_decided_on_them(
    app: Celery, settings: Settings
) -> None:
    app.task(name="surveyed.plain", ledger=False, rate_limit="1/s")(_nothing)
    settings.CELERIAC = {"PLAIN_TASKS": ["surveyed.on*", "surveyed.pickled"]}
    remarks = look_at(app)

    assert own(named(remarks, "stay plain Celery")) == ["surveyed.once", "surveyed.pickled", "surveyed.plain"]
    assert own(named(remarks, "rate_limit")) == ["surveyed.based"]
    assert not [name for r in remarks if "at most once" in r.what for name in own(r)]


def test_a_policy_on_a_task_that_is_left_out_is_an_error_that_names_the_remedy(app: Celery) -> None:
    with pytest.raises(ConfigurationError, match="take one of them away"):
        app.task(name="surveyed.torn", shared=False, ledger=False, policy=Policy())(_nothing)()


def test_what_is_to_be_decided_comes_first(app: Celery) -> None:
    kinds = [remark.kind for remark in look_at(app)]
    assert kinds == sorted(kinds, key=(DECIDE, CHANGES, FINE).index)


def test_a_plain_app_is_told_to_change_its_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    with celery.Celery("plain", broker="amqp://127.0.0.1", set_as_current=False) as plain:
        remarks = look_at(plain)
    assert named(remarks, "plain celery.Celery").kind == DECIDE
    assert named(remarks, "broker is amqp").kind == DECIDE


def test_the_command_prints_it_for_people_and_for_programs() -> None:
    out = io.StringIO()
    call_command("celeriac", "adopt", stdout=out)
    assert "task(s) are registered" in out.getvalue()

    out = io.StringIO()
    call_command("celeriac", "adopt", "--json", stdout=out)
    assert {remark["kind"] for remark in json.loads(out.getvalue())["remarks"]} <= {DECIDE, CHANGES, FINE}
