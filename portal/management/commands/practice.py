"""`manage.py practice up|remove`: the practice lab's nodes and its sample job."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from portal.actions import practice, setup
from portal.management.started import StartedCommand


class Command(StartedCommand):
    help = "Bring the practice lab in (as every start does), or take it away for good."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("verb", choices=["up", "remove"])

    def handle(self, *args: Any, **options: Any) -> None:
        admin = setup.first_admin()
        if options["verb"] == "remove":
            practice.remove(actor=admin, now=timezone.now())
            self.stdout.write("The practice lab goes as its last jobs end.")
            return
        practice.want()
        for node in practice.ensure(now=timezone.now()):
            self.stdout.write(f"{node} on port {node.port}")
        self.stdout.write("They answer while the portal runs (make run).")
