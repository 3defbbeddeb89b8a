"""What the settings read from the environment, and the errors a wrong value gives."""

import os
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

CONNECTION_MAX_AGE = 60  # seconds a database connection is kept between requests


def text(name: str, default: str | None = None) -> str:
    """Return the variable, or the default; without a default an absent or empty one is an error that names it."""
    value = os.environ.get(name) or default
    if value is None:
        raise ImproperlyConfigured(f"Set {name} in the environment: it has no default here.")
    return value


def number(name: str, default: float) -> float:
    """Return the variable as a number of whatever unit the setting documents."""
    raw = os.environ.get(name)
    if not raw:
        return default
    try:
        return float(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {raw!r}.") from None


def flag(name: str, default: bool) -> bool:
    """Return the variable as a switch: 1/true/yes/on or 0/false/no/off, in any case."""
    raw = os.environ.get(name, "").strip().lower()
    if not raw:
        return default
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {raw!r}.")


def names(name: str, default: list[str]) -> list[str]:
    """Return the variable as a list: values apart by commas, blanks around them dropped."""
    raw = os.environ.get(name)
    if raw is None:
        return default
    return [part.strip() for part in raw.split(",") if part.strip()]


def database(url: str) -> dict[str, Any]:
    """Return Django's settings for a `postgres://` URL.

    The host is a name, an address, or a directory that holds the server's Unix socket, given as libpq writes it:
    `postgres://user@/name?host=/run/postgresql&port=5432`. Other parameters go to the driver as they are.
    Raises ImproperlyConfigured for a URL that names no known kind of database.
    """
    split = urlsplit(url)
    # Django connects to a socket directory given as HOST; left in the query string it would reach the driver but
    # not `dbshell`, the checks or anyone who prints where we are connected.
    query = dict(parse_qsl(split.query))
    host, port = query.pop("host", None), query.pop("port", None)
    try:
        parsed = dj_database_url.parse(
            urlunsplit(split._replace(query=urlencode(query))),
            conn_max_age=CONNECTION_MAX_AGE,
            conn_health_checks=True,
        )
    except (dj_database_url.ParseError, ValueError) as error:
        # The URL carries a password: say what is expected, never what was given.
        raise ImproperlyConfigured(
            f"DATABASE_URL is not understood ({type(error).__name__}); expected postgres://user:password@host:port/name."
        ) from None
    config: dict[str, Any] = dict(parsed)
    if host:
        config["HOST"] = host
    if port:
        config["PORT"] = port
    return config
