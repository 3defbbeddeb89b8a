"""Django's settings, the same for every side: what Django does by default, on the one database."""

import secrets

from settings import environment

SECRET_KEY = secrets.token_urlsafe(50)
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_celery_results", "celeriac"]

DATABASES = {
    "default": {
        **environment.database(environment.text("DATABASE_URL")),
        # Django's own defaults, not the reference project's. `celery-django-results-reuse` raises the first.
        "CONN_MAX_AGE": int(environment.number("BENCH_CONN_MAX_AGE", 0)),
        "CONN_HEALTH_CHECKS": False,
    }
}

CELERY_BROKER_URL = environment.text("CELERY_BROKER_URL")
