"""Settings of the example shop. What differs between machines comes from the environment."""

import os
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
DEBUG = os.environ.get("DEBUG", "1") == "1"
HTTPS = os.environ.get("HTTPS", "0") == "1"
SECRET_KEY = os.environ.get(
    "SECRET_KEY", "for the demonstration only, never for a site of your own"
)
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "127.0.0.1,localhost").split(",")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "shipsilently_django",
    "shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "shipsilently_django.FlagsMiddleware",
]

# The one dictionary that flags need. Key and address fit `shipsilently serve`.
SHIPSILENTLY = {
    "API_KEY": os.environ.get("SHIPSILENTLY_API_KEY", "sk_local"),
    "API_URL": os.environ.get("SHIPSILENTLY_API_URL", "http://127.0.0.1:4400"),
    "CONTEXT": "shop.visitors.flag_context",
    "ANONYMOUS_ID": "cookie",  # so that a rollout stays with a visitor
    "DEFAULTS": {"new-checkout": False, "banner": "grey", "free-delivery": False},
    "ON_STATE_CHANGE": "shop.operations.on_state_change",
}

# Which flags has this page read, and why were they so? Shown where the toolbar is installed.
TOOLBAR = DEBUG and find_spec("debug_toolbar") is not None
if TOOLBAR:
    INSTALLED_APPS.append("debug_toolbar")
    MIDDLEWARE.insert(0, "debug_toolbar.middleware.DebugToolbarMiddleware")
INTERNAL_IPS = ["127.0.0.1"]
DEBUG_TOOLBAR_CONFIG = {"SHOW_COLLAPSED": True}
DEBUG_TOOLBAR_PANELS = [
    "debug_toolbar.panels.timer.TimerPanel",
    "debug_toolbar.panels.sql.SQLPanel",
    "shipsilently_django.panel.FlagsPanel",
]

ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("EXAMPLE_DB", HERE / "shop.sqlite3"),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
USE_TZ = True

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "home"

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
