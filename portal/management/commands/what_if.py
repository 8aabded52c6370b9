"""`manage.py what_if`: plays one trial of a change; the worker starts it."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from portal.actions import what_if
from portal.management.started import StartedCommand
from portal.supervisor.child import end_with_parent

NICE = 10
"""Whatever schedules jobs goes before it; beside other work it still gets on."""
NOTE_EVERY_S = 1.0
MOST_S = 900.0
"""Of a processor's time."""


class Command(StartedCommand):
    help = "Play a change that was asked for on the page What if. Started by the worker."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=int)
        parser.add_argument("--parent", type=int, help="the process whose end is its end, too")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["parent"] is not None:
            end_with_parent(signal.SIGKILL, options["parent"])
        os.nice(NICE)
        pk = options["id"]
        what_if.play(pk=pk, clock=timezone.now, told=_Teller(pk).tell)


class _Teller:
    """Tells the database now and then how far it is, and hears whether to go on."""

    def __init__(self, pk: int) -> None:
        self._pk = pk
        self._next = 0.0

    def tell(self, part: float) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + NOTE_EVERY_S
        if time.process_time() > MOST_S:
            raise what_if.TooLong(
                f"It took more than {MOST_S / 60:g} minutes. Choose a shorter time."
            )
        if not what_if.note(pk=self._pk, progress=part, now=timezone.now()):
            raise what_if.Stopped
