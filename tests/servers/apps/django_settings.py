"""Settings of a Django site."""

import os

SECRET_KEY = "for these tests"
DEBUG = os.environ.get("SITE_DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "shipsilently_django",
]
MIDDLEWARE = ["shipsilently_django.FlagsMiddleware"]
SHIPSILENTLY = {
    "API_KEY": os.environ["SHIPSILENTLY_API_KEY"],
    "API_URL": os.environ["SHIPSILENTLY_API_URL"],
    "CONTEXT": "tests.servers.apps.django_urls.context",
}
ROOT_URLCONF = "tests.servers.apps.django_urls"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SITE_DB", ":memory:"),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
