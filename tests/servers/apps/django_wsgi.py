"""The Django site under WSGI."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.servers.apps.django_settings")
application = get_wsgi_application()
