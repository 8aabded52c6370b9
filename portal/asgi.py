"""The HTTP door, for uvicorn."""

import os

from django.core.asgi import get_asgi_application

from portal.doorkeeper import Doorkeeper

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

application = Doorkeeper(get_asgi_application())
