"""The Django site under ASGI."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.servers.apps.django_settings")
application = get_asgi_application()
