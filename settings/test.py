"""The test suite. Its services' addresses are in the environment before this is read (see tests/conftest.py)."""

import secrets

from settings import environment
from settings.base import *  # noqa: F403 -- Django's settings are names of a module; this one has all of base's

DEBUG = False
SECRET_KEY = environment.text("DJANGO_SECRET_KEY", "") or secrets.token_urlsafe(50)
ALLOWED_HOSTS = ["*"]

DATABASES = {
    "default": environment.database(environment.text("DATABASE_URL", "postgres://celeriac@127.0.0.1:5432/celeriac"))
}

# One round instead of a million: what is tested is who may log in, not how slowly.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
