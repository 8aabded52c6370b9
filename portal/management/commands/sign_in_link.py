"""`manage.py sign_in_link [USER]`: print a link that signs somebody in once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from portal.actions import setup, signin
from portal.management.started import StartedCommand
from portal.models import User


class Command(StartedCommand):
    help = "Print a one-time sign-in link; without a name, for the lab's first administrator."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", nargs="?")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["username"]
        user = User.objects.filter(username=name).first() if name else _first_admin()
        if user is None:
            raise CommandError(f"there is no person {name!r}")
        self.stdout.write(signin.link(user=user, now=timezone.now()))


def _first_admin() -> User:
    """With a project to submit to, as an installation without `prepare` has none yet."""
    admin = setup.first_admin()
    setup.first_project(admin)
    return admin
