"""`manage.py jobs`: the queue on a terminal."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from jobs.lifecycle import State
from portal.management.started import StartedCommand
from portal.models import Job
from portal.queries import listing


class Command(StartedCommand):
    help = "List jobs, newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", nargs="*", type=int, help="only these jobs")
        parser.add_argument("--state", help="only jobs in this state, such as RUNNING")
        parser.add_argument("--limit", type=int, default=100, help="how many at most (100)")
        parser.add_argument("--json", action="store_true", help="print everything as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = Job.objects.order_by("-pk")
        if options["ids"]:
            rows = rows.filter(pk__in=options["ids"])
        if state := options["state"]:
            if state.upper() not in State.__members__:
                raise CommandError(f"--state: {state!r} is none of {', '.join(State)}")
            rows = rows.filter(state=state.upper())
        found = listing.jobs(rows[: options["limit"]])
        if options["json"]:
            self.stdout.write(json.dumps(found, cls=DjangoJSONEncoder, indent=1))
            return
        line = "{label:>8}  {state:<13} {owner:<12} {name:<28} {where}"
        self.stdout.write(line.format(
            label="JOB", state="STATE", owner="OWNER", name="NAME", where="NODES OR REASON"
        ))  # fmt: skip
        for job in found:
            where = ",".join(part["node"] for part in job["allocation"]) or job["reason"]
            self.stdout.write(line.format(**job | {"where": where, "name": job["name"][:28]}))
