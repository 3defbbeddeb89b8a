"""A developer's machine, and the demo."""

import contextlib
import os
import secrets
from pathlib import Path

from settings import environment
from settings.base import *  # noqa: F403 -- Django's settings are names of a module; this one has all of base's

DEBUG = environment.flag("DJANGO_DEBUG", True)
ALLOWED_HOSTS = environment.names("DJANGO_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])


def _secret_key(kept_in: Path) -> str:
    """Return the key kept in the file, making both on the first call: sessions outlive a restart, no key is shared."""
    if not kept_in.exists():
        kept_in.parent.mkdir(parents=True, exist_ok=True)
        # Two processes may start at once: each writes a file of its own and the first link wins.
        ours = kept_in.with_name(f"{kept_in.name}.{os.getpid()}")
        with os.fdopen(os.open(ours, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        with contextlib.suppress(FileExistsError):  # the other's key is as good as ours
            os.link(ours, kept_in)
        ours.unlink()
    return kept_in.read_text()


SECRET_KEY = environment.text("DJANGO_SECRET_KEY", "") or _secret_key(BASE_DIR / "var" / "secret-key")  # noqa: F405 -- from base

DATABASES = {
    "default": environment.database(environment.text("DATABASE_URL", "postgres://celeriac@127.0.0.1:5432/celeriac"))
}
