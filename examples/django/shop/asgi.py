"""The shop for ASGI servers: `uvicorn shop.asgi:application`."""

import os

from django.core.asgi import get_asgi_application
from shipsilently_django.asgi import with_lifespan

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = with_lifespan(get_asgi_application())
