"""All settings, from environment variables; `docs/settings.md` lists them."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF

from portal import config

BASE_DIR = Path(__file__).resolve().parent.parent
DATA = Path(config.text("CARREL_DATA", str(BASE_DIR / "var"))).resolve()
DATA.mkdir(parents=True, exist_ok=True, mode=0o700)

TESTING = "pytest" in sys.modules
DEBUG = config.flag("CARREL_DEBUG", False)
SECRET_KEY = config.secret("CARREL_SECRET_KEY", DATA / "secret_key")

PORT = config.integer("PORT", config.running_port(DATA) or 8000, least=1)
BASE_URL = config.text("CARREL_BASE_URL", f"http://127.0.0.1:{PORT}").rstrip("/")
_base = urlsplit(BASE_URL)
HTTPS = _base.scheme == "https"
ALLOWED_HOSTS = sorted(
    {_base.hostname or "127.0.0.1", "127.0.0.1", "localhost", *config.words("CARREL_HOSTS")}
)
CSRF_TRUSTED_ORIGINS = [BASE_URL]

EMBEDDED = not config.text("DATABASE_URL") and not config.text("REDIS_URL")
"""Nothing was set up by an administrator: one machine, everything under `DATA`."""
LEASE_S = config.integer("CARREL_LEASE_S", 60, least=30)
"""How long a node goes on with what may be started elsewhere when we cannot reach it."""
PRACTICE = config.flag("CARREL_PRACTICE", EMBEDDED)
PRACTICE_DIR = DATA / "practice"
LOG_ARCHIVE = DATA / "logs"
SSH_KEY = DATA / "ssh" / "id_ed25519"

INSTALLED_APPS = [
    "portal.apps.PortalConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "csp",
    "django_htmx",
    "template_partials",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.views.context.everywhere",
            ],
            "builtins": ["portal.templatetags.carrel"],
        },
    }
]

DATABASES = {"default": config.database(config.text("DATABASE_URL"), DATA)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "portal.User"
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en"
TIME_ZONE = config.text("TZ", "UTC")
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(config.text("CARREL_STATIC", str(DATA / "static")))
SERVESTATIC_MAX_AGE = 3600
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if TESTING or DEBUG
        else "servestatic.storage.CompressedManifestStaticFilesStorage"
    },
}
SERVESTATIC_USE_FINDERS = DEBUG

# A script may be 1 MB; its URL-encoded form up to three times that.
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_AGE = 14 * 24 * 3600
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        # CodeMirror puts its style sheet into the page with this nonce.
        "style-src": [SELF, NONCE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

REDIS_SOCKET = DATA / "redis" / "s"
REDIS_URL = config.text("REDIS_URL", f"unix://{REDIS_SOCKET}")
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{levelname} {name}: {message}", "style": "{"}},
    # A 503 is `/healthz` saying who is missing, to a monitor that asks every few seconds.
    "filters": {
        "no_503": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: getattr(record, "status_code", None) != 503,
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": config.text("CARREL_LOG_LEVEL", "INFO")},
    "loggers": {
        "paramiko": {"level": "WARNING"},
        "django.request": {"level": "ERROR", "filters": ["no_503"]},
    },
}
