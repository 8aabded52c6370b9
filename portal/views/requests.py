"""What a view of ours is given."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from portal.models import User


class PageRequest(HttpRequest):
    """A request as our middleware leaves it: of somebody signed in, knowing whether htmx asks.

    A name for the type checker; no request is ever made one.
    """

    htmx: HtmxDetails
    user: User
