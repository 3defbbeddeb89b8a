"""What every place the reference project runs in has in common. `dev`, `test` and `prod` each add the rest."""

from pathlib import Path

from django.utils.translation import gettext_lazy as _

from settings import environment

BASE_DIR = Path(__file__).resolve().parent.parent

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_results",
    "celeriac",
    "dlq_admin",
    "tasks",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "settings.urls"
WSGI_APPLICATION = "settings.wsgi.application"
ASGI_APPLICATION = "settings.asgi.application"

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "var" / "static"

ALLOWED_HOSTS = environment.names("DJANGO_ALLOWED_HOSTS", [])
CSRF_TRUSTED_ORIGINS = environment.names("DJANGO_CSRF_TRUSTED_ORIGINS", [])

# Redis is the broker, and accelerates what the database decides.
REDIS_URL = environment.text("REDIS_URL", "redis://127.0.0.1:6379/0")

CELERY_BROKER_URL = environment.text("CELERY_BROKER_URL", REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
# Events are what Flower listens to.
CELERY_WORKER_SEND_TASK_EVENTS = True
CELERY_TASK_SEND_SENT_EVENT = True

# Every key has a default; `manage.py check` explains a wrong one.
CELERIAC: dict[str, object] = {}

# The shop's third parties: one HTTP service, and mail. Time-outs in seconds.
SHOP_THIRD_PARTY_URL = environment.text("SHOP_THIRD_PARTY_URL", "http://127.0.0.1:8800")
SHOP_CONNECT_TIMEOUT = environment.number("SHOP_CONNECT_TIMEOUT", 3)
SHOP_READ_TIMEOUT = environment.number("SHOP_READ_TIMEOUT", 10)

EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_HOST = environment.text("EMAIL_HOST", "127.0.0.1")
EMAIL_PORT = int(environment.number("EMAIL_PORT", 1025))
EMAIL_TIMEOUT = SHOP_READ_TIMEOUT
DEFAULT_FROM_EMAIL = environment.text("DEFAULT_FROM_EMAIL", "shop@example.com")
