"""What the reference project's settings make of the environment."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from settings import environment


def test_a_database_url_names_host_port_name_and_user() -> None:
    config = environment.database("postgres://shop:s%40crea@db.example.com:5433/orders")
    assert (config["HOST"], config["PORT"], config["NAME"]) == ("db.example.com", 5433, "orders")
    assert (config["USER"], config["PASSWORD"]) == ("shop", "s@crea")
    assert config["ENGINE"] == "django.db.backends.postgresql"


def test_a_unix_socket_directory_becomes_the_host() -> None:
    config = environment.database("postgres://shop@/orders?host=%2Frun%2Fpg%20one&port=5433")
    assert (config["HOST"], config["PORT"], config["NAME"]) == ("/run/pg one", "5433", "orders")


def test_other_parameters_reach_the_driver() -> None:
    config = environment.database("postgres://shop@db/orders?sslmode=require&host=other")
    assert config["OPTIONS"] == {"sslmode": "require"}
    assert config["HOST"] == "other"


def test_connections_are_kept_for_a_minute_and_checked() -> None:
    config = environment.database("postgres://shop@db/orders")
    assert config["CONN_MAX_AGE"] == 60
    assert config["CONN_HEALTH_CHECKS"] is True


@pytest.mark.parametrize("url", ["nonsense", "gopher://shop:s3cret@db/orders", "postgres://shop:s3cret@db:port/orders"])
def test_a_url_that_is_none_is_explained_without_repeating_its_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL is not understood") as error:
        environment.database(url)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(("raw", "value"), [("1", True), ("Yes", True), ("off", False), ("", True)])
def test_a_switch_is_read_in_any_case_and_empty_means_the_default(
    monkeypatch: pytest.MonkeyPatch, raw: str, value: bool
) -> None:
    monkeypatch.setenv("A_SWITCH", raw)
    assert environment.flag("A_SWITCH", True) is value


def test_wrong_values_are_errors_that_name_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_VARIABLE", "perhaps")
    with pytest.raises(ImproperlyConfigured, match="A_VARIABLE must be true or false"):
        environment.flag("A_VARIABLE", True)
    with pytest.raises(ImproperlyConfigured, match="A_VARIABLE must be a number"):
        environment.number("A_VARIABLE", 1)


def test_a_variable_without_a_default_has_to_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_VARIABLE", raising=False)
    with pytest.raises(ImproperlyConfigured, match="Set A_VARIABLE in the environment"):
        environment.text("A_VARIABLE")


def test_a_list_is_apart_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_LIST", "a.example.com, b.example.com,,")
    assert environment.names("A_LIST", []) == ["a.example.com", "b.example.com"]
