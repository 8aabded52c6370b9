"""What all commands have in common: they need a Carrel that was started once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection


class StartedCommand(BaseCommand):
    """A command that says so where there is no database yet."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """As Django's. Raises CommandError."""
        try:
            return super().execute(*args, **options)
        except DatabaseError as error:
            if "django_migrations" in connection.introspection.table_names():
                raise
            raise CommandError(
                "Carrel was never started with these settings: there is nothing in its database. "
                "Start it with `make run`, or run `manage.py prepare`."
            ) from error
