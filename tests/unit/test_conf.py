"""A setting is named, has a unit, and explains itself when it is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from celeriac import conf
from celeriac.errors import ConfigurationError


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CELERIAC_"):
            monkeypatch.delenv(name)


def found(settings: Settings, configured: Any) -> list[tuple[str, str, str]]:
    settings.CELERIAC = configured
    return list(conf.problems())


@pytest.mark.parametrize("key", conf.SETTINGS)
def test_every_setting_has_a_usable_default_and_says_what_it_does(key: str, settings: Settings) -> None:
    settings.CELERIAC = {}
    setting = conf.SETTINGS[key]

    assert conf.get(key) == setting.default
    assert setting.help.endswith((".", "dies.")), "one sentence"
    if setting.kind in (int, float):
        assert setting.unit, "a number without a unit can't be set by anybody"
        assert setting.minimum is not None


@pytest.mark.parametrize("key", conf.SETTINGS)
def test_no_default_is_complained_about(key: str, settings: Settings) -> None:
    assert found(settings, {key: conf.SETTINGS[key].default}) == []


def test_a_misspelt_key_is_refused_with_the_nearest_name(settings: Settings) -> None:
    ((check_id, message, hint),) = found(settings, {"MAX_PAYLOAD_BYTE": 1})

    assert check_id == "celeriac.E002"
    assert "'MAX_PAYLOAD_BYTE'" in message
    assert hint == "Did you mean 'MAX_PAYLOAD_BYTES'?"


def test_a_key_like_no_other_is_sent_to_the_table(settings: Settings) -> None:
    ((_, _, hint),) = found(settings, {"XYZZY": 1})
    assert "docs/reference/settings.md" in hint


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ON_LOST", "maybe", "choose one of 'again', 'review', 'fail'"),
        ("MAX_PAYLOAD_BYTES", "big", "must be int (bytes)"),
        ("MAX_PAYLOAD_BYTES", True, "must be int (bytes)"),
        ("MAX_PAYLOAD_BYTES", 10, "at least 1024 bytes"),
        ("STOP_GRACE", "30", "must be float (seconds)"),
        ("STOP_GRACE", -1.0, "at least 0 seconds"),
        ("RING", 1, "must be bool"),
        ("REDACT_KEYS", "phone", "must be a list of names"),
    ],
)
def test_a_wrong_value_is_refused_with_what_it_should_be(key: str, value: Any, said: str, settings: Settings) -> None:
    ((check_id, message, hint),) = found(settings, {key: value})

    assert check_id == "celeriac.E003"
    assert f"CELERIAC['{key}']" in message
    assert said in message
    assert "Default:" in hint
    with pytest.raises(ConfigurationError, match=key):
        conf.get(key)


def test_settings_that_are_no_dict_are_refused(settings: Settings) -> None:
    ((check_id, message, _),) = found(settings, ["ON_LOST"])
    assert check_id == "celeriac.E001"
    assert "list" in message


def test_a_stall_limit_within_a_few_beats_is_refused(settings: Settings) -> None:
    ((check_id, message, _),) = found(settings, {"STALL_AFTER": 4.0, "BEAT_EVERY": 1.0})
    assert check_id == "celeriac.E004"
    assert "BEAT_EVERY" in message


def test_several_faults_are_told_at_once(settings: Settings) -> None:
    assert len(found(settings, {"ON_LOST": "x", "RING": "x", "XYZZY": 1})) == 3


def test_djangos_check_command_tells_them(settings: Settings) -> None:
    settings.CELERIAC = {"ON_LOSS": "again"}
    told = [message for message in run_checks() if message.id == "celeriac.E002"]
    assert [message.hint for message in told] == ["Did you mean 'ON_LOST'?"]


def test_whole_seconds_are_seconds(settings: Settings) -> None:
    settings.CELERIAC = {"STOP_GRACE": 5}
    assert conf.get("STOP_GRACE") == 5.0
    assert isinstance(conf.get("STOP_GRACE"), float)
    assert list(conf.problems()) == []


def test_a_setting_is_read_when_it_is_used(settings: Settings) -> None:
    settings.CELERIAC = {"MAX_LOST": 7}
    assert conf.get("MAX_LOST") == 7
    settings.CELERIAC = {"MAX_LOST": 2}
    assert conf.get("MAX_LOST") == 2


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("MAX_LOST", "7", 7),
        ("STOP_GRACE", "2.5", 2.5),
        ("RING", "no", False),
        ("RING", "TRUE", True),
        ("ON_LOST", "review", "review"),
        ("REDACT_KEYS", "badge,locker", ["badge", "locker"]),
    ],
)
def test_the_environment_wins_over_the_dict(
    key: str, text: str, value: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CELERIAC = {key: conf.SETTINGS[key].default}
    monkeypatch.setenv(f"CELERIAC_{key}", text)
    assert conf.get(key) == value


@pytest.mark.parametrize(("key", "text"), [("MAX_LOST", "x"), ("RING", "perhaps"), ("ON_LOST", "x"), ("MAX_LOST", "0")])
def test_a_wrong_value_in_the_environment_is_named_as_such(
    key: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CELERIAC_{key}", text)
    with pytest.raises(ConfigurationError, match=f"CELERIAC_{key}"):
        conf.get(key)


def test_two_databases_of_one_user_never_share_a_spool(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CELERIAC = {}
    ours = conf.spool_dir()
    other = {**settings.DATABASES["default"], "NAME": "another"}
    monkeypatch.setattr("django.conf.settings.DATABASES", {"default": other})

    assert conf.spool_dir() != ours
    assert Path(ours).parent == Path(conf.spool_dir()).parent
    assert Path(ours).parent.name == f"celeriac-{os.getuid()}"


def test_a_spool_folder_that_was_named_is_used_as_it_is(settings: Settings, tmp_path: Path) -> None:
    settings.CELERIAC = {"SPOOL_DIR": str(tmp_path)}
    assert conf.spool_dir() == str(tmp_path)
