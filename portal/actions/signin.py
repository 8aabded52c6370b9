"""One-time links to sign in with: for the first start, and for whoever has no password."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from portal.models import SignInLink, User

LIFETIME = timedelta(hours=1)


def issue(*, user: User, now: datetime) -> str:
    """A token that signs `user` in once within `LIFETIME`. Earlier ones stop working."""
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        SignInLink.objects.filter(user=user).delete()
        SignInLink.objects.create(user=user, digest=_digest(token), expires_at=now + LIFETIME)
    return token


def link(*, user: User, now: datetime) -> str:
    """The whole address of a one-time link for `user`, as issued by `issue`."""
    return f"{settings.BASE_URL}{reverse('enter', args=[issue(user=user, now=now)])}"


def look(*, token: str, now: datetime) -> User | None:
    """Whom the token would sign in; it stays usable."""
    link = SignInLink.objects.filter(digest=_digest(token), expires_at__gt=now)
    found = link.select_related("user").first()
    return found.user if found and found.user.is_active else None


def redeem(*, token: str, now: datetime) -> User | None:
    """Use the token up; None when it is unknown, used or too old."""
    user = look(token=token, now=now)
    used, _ = SignInLink.objects.filter(digest=_digest(token)).delete()
    return user if used else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
