"""Behind a proxy that speaks TLS. Nothing secret has a default: a missing variable is an error that names it."""

from settings import environment
from settings.base import *  # noqa: F403 -- Django's settings are names of a module; this one has all of base's
from settings.base import MIDDLEWARE

DEBUG = False
SECRET_KEY = environment.text("DJANGO_SECRET_KEY")
ALLOWED_HOSTS = environment.names("DJANGO_ALLOWED_HOSTS", [])

DATABASES = {"default": environment.database(environment.text("DATABASE_URL"))}

# Static files are served by the web process, compressed and with names that change with their content.
MIDDLEWARE = [MIDDLEWARE[0], "whitenoise.middleware.WhiteNoiseMiddleware", *MIDDLEWARE[1:]]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = environment.flag("DJANGO_SECURE_SSL_REDIRECT", True)
# A proxy asks for this over plain HTTP to learn whether the process lives.
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SECURE_HSTS_SECONDS = int(environment.number("DJANGO_HSTS_SECONDS", 3600))
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
