"""`manage.py simulate`: what a policy would have done with a recorded workload."""

from __future__ import annotations

import json
import time
from argparse import RawDescriptionHelpFormatter
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    DjangoHelpFormatter,
)

from jobs.scheduler.simulate.play import play
from jobs.scheduler.simulate.policies import NAMED, PolicyError, SimPolicy, Walls, find_policies
from jobs.scheduler.simulate.run import Stuck
from jobs.scheduler.simulate.scenario import check_told
from jobs.scheduler.simulate.tables import TableError
from jobs.scheduler.simulate.tell import as_json, table
from jobs.scheduler.simulate.traces import (
    Format,
    Recorded,
    find_cluster,
    format_of,
    keep_possible,
    read_jobs,
    read_window,
)
from jobs.scheduler.simulate.workload import GPUS_PER_NODE


class _Help(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """With the lines at its end as they are."""


class Command(BaseCommand):
    help = "Play a recorded workload under one or several policies, with the real scheduler."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        told = "\n".join(f"  {name:<17}{policy.about}" for name, policy in NAMED.items())
        return super().create_parser(
            prog_name, subcommand, formatter_class=_Help, epilog=f"policies:\n{told}", **kwargs
        )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("trace", type=Path, help="the jobs: a table, plain or gzip")
        parser.add_argument(
            "--cluster", required=True, metavar="FILE",
            help=f"a table vc,nodes; or a number of nodes, each of {GPUS_PER_NODE} GPUs",
        )  # fmt: skip
        parser.add_argument(
            "--format", choices=["venus", "philly", "ricc"],
            help="whose columns the trace has (told from its header)",
        )  # fmt: skip
        parser.add_argument(
            "--policy", action="append", default=[], metavar="FILE|NAME",
            help="one of those below, or a file in TOML; may come several times (fifo, carrel)",
        )  # fmt: skip
        parser.add_argument(
            "--walls", choices=[*map(str, Walls)], help="between the VCs, for all of the policies"
        )
        parser.add_argument("--from", dest="start", metavar="TIME", help="only jobs since then")
        parser.add_argument("--until", metavar="TIME", help="only jobs submitted before")
        parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures there")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._simulate(options)
        except (TableError, PolicyError, Stuck) as error:
            raise CommandError(str(error)) from error

    def _simulate(self, options: dict[str, Any]) -> None:
        asked = options["policy"] or ("fifo", "carrel")
        policies = [_walled(policy, options["walls"]) for policy in find_policies(asked)]
        # The trace first: what is said of it explains most about the other file.
        jobs, cluster = _jobs(options), find_cluster(options["cluster"])
        kept = keep_possible(jobs, cluster, GPUS_PER_NODE)
        for sentence in kept.left_out:
            self.stderr.write(f"Left out: {sentence}.")
        if not kept.jobs:
            raise CommandError("No job of this trace fits on this cluster.")
        name = options["trace"].name
        for policy in policies:
            check_told(name, kept.jobs, cluster, policy)
        if options["json"] is not None:
            # That it cannot be written is not to show after hours.
            _write(options["json"], "", "a")
        rows = [
            (policy.name, play(name, kept.jobs, cluster, policy, time.perf_counter))
            for policy in policies
        ]
        self.stdout.write(f"{name}: {len(kept.jobs):,} jobs on {cluster.total:,} nodes")
        self.stdout.write(table(rows))
        if options["json"] is not None:
            found = {name: as_json(row) for name, row in rows}
            _write(options["json"], json.dumps(found, indent=1) + "\n")


def _write(path: Path, text: str, mode: str = "w") -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def _walled(policy: SimPolicy, walls: str | None) -> SimPolicy:
    return policy if walls is None else replace(policy, walls=Walls(walls))


def _jobs(options: dict[str, Any]) -> list[Recorded]:
    path = options["trace"]
    form = Format(options["format"]) if options["format"] else format_of(path)
    return read_jobs(path, form, read_window(options["start"], options["until"], form))
