"""`manage.py usage`: who used how many GPU-hours."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from jobs.bands import Band
from portal.management.started import StartedCommand
from portal.models import Project, User
from portal.queries import accounts
from portal.queries.books import Only
from portal.queries.usage import By, usage


class Command(StartedCommand):
    help = "Tell GPU-hours and weighted hours, by project, user, band, GPU model or day."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--by", choices=list(By), default=By.PROJECT)
        parser.add_argument(
            "--since",
            type=_moment,
            help="a day, or a time as in 2026-11-03T12:00 (this month's 1st)",
        )
        parser.add_argument("--until", type=_moment, help="the same; a day is not included (now)")
        parser.add_argument("--project", help="only this project and those below it")
        parser.add_argument("--user", help="only this user")
        parser.add_argument("--band", choices=list(Band), help="only this band")
        parser.add_argument("--model", help="only this model of GPU, by its full name")
        parser.add_argument("--json", action="store_true", help="print it as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        since = options["since"] or _month(now)
        until = min(options["until"] or now, now)
        if until < since:
            raise CommandError(
                "--since: nothing is known of what comes after --until, or after now"
            )
        by = By(options["by"])
        found = usage(by, since, until, now=now, only=_only(options))
        if options["json"]:
            told = {"by": by, "since": since.isoformat(), "until": until.isoformat()}
            told["usage"] = [asdict(used) for used in found]
            self.stdout.write(json.dumps(told, indent=1))
            return
        width = max([len(by), *(len(used.name) for used in found)])
        self.stdout.write(f"{by.upper():<{width}} {'GPU-HOURS':>14} {'WEIGHTED':>14}")
        for used in found:
            line = f"{used.name:<{width}} {used.gpu_hours:>14,.2f} {used.weighted_hours:>14,.2f}"
            self.stdout.write(line)


def _moment(text: str) -> datetime:
    """In the lab's time zone, where the text names none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} should be as 2026-11-03 or 2026-11-03T12:00") from error
    return found if found.tzinfo else timezone.make_aware(found, timezone.get_default_timezone())


def _month(now: datetime) -> datetime:
    local = timezone.localtime(now, timezone.get_default_timezone())
    return local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _only(options: dict[str, Any]) -> Only:
    project, user = options["project"], options["user"]
    return Only(
        projects=None if project is None else accounts.below(_id(Project, "name", project)),
        users=None if user is None else frozenset({_id(User, "username", user)}),
        bands=None if options["band"] is None else frozenset({options["band"]}),
        gpu_models=None if options["model"] is None else frozenset({options["model"]}),
    )


def _id(model: type[Project] | type[User], field: str, name: str) -> int:
    found = model._default_manager.filter(**{field: name}).values_list("pk", flat=True).first()
    if found is None:
        kind = model._meta.verbose_name
        raise CommandError(f"--{kind}: there is no {kind} {name!r}")
    return found
