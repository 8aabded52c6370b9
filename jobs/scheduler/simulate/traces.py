"""Recorded workloads in the formats in which they were published; `docs/simulate.md` lists them.

Jobs that are submitted at once stay in the order of the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from jobs.rules import MAX_NODES
from jobs.scheduler.simulate.tables import MOST, Row, Table, TableError, read_table

LONGEST_S = 2e11
"""What all jobs of a workload may run for together: beyond come the years that no date tells."""
MAX_CLUSTER = 100_000
"""So many nodes at most."""


class Format(StrEnum):
    """Whose columns a file has."""

    VENUS = "venus"
    PHILLY = "philly"
    RICC = "ricc"
    OPENB = "openb"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One job as it was recorded. An empty word stands for one that is not known."""

    submit_s: float
    """On the file's own clock; seconds since 1970 where it tells the date."""
    run_s: int
    gpus: int
    """Or processors, where the workload has no GPUs."""
    vc: str = ""
    """The part of the cluster that it was submitted to."""
    project: str = ""
    user: str = ""
    name: str = ""
    request_s: int | None = None
    """The time limit its user asked for."""


@dataclass(frozen=True)
class Window:
    """The jobs submitted from `start` on and before `end`, on the file's own clock."""

    start: float | None = None
    end: float | None = None

    def holds(self, submit_s: float) -> bool:
        """Whether it was submitted within."""
        return (self.start is None or self.start <= submit_s) and (
            self.end is None or submit_s < self.end
        )


def read_jobs(
    path: Path, form: Format | None = None, window: Window | None = None
) -> list[Recorded]:
    """The jobs of a window by their times of submission, in the format that the header shows.

    Raises `TableError`, also where nothing is left.
    """
    table = read_table(path)
    form = form or known_format(table)
    if form not in _READERS:
        raise TableError(
            f"{table.file}: pods of {form} have no times to simulate: they are placed, not queued. "
            f"Only bench/traces.py plays them: --jobs FILE --nodes FILE --format {form}"
        )
    columns, reader = _READERS[form]
    table.require(*columns)
    if not table.rows:
        raise TableError(f"{table.file}: there are no jobs in it")
    window = window or Window()
    found = [job for job in map(reader, table.rows) if window.holds(job.submit_s)]
    if not found:
        raise TableError(f"{table.file}: no job was submitted in that time")
    found.sort(key=lambda job: job.submit_s)
    if sum(job.run_s for job in found) > LONGEST_S:
        years = round(LONGEST_S / 86_400 / 365)
        raise TableError(f"{table.file}: its jobs run for more than {years:,} years together")
    begin = found[0].submit_s if window.start is None else window.start
    return [replace(job, submit_s=job.submit_s - begin) for job in found]


def format_of(path: Path) -> Format:
    """What the header of a file shows. Raises `TableError`."""
    return known_format(read_table(path))


def known_format(table: Table) -> Format:
    """Raises `TableError` if it is none."""
    for form, columns in _SIGNS.items():
        if columns <= set(table.columns):
            return form
    raise TableError(
        f"{table.file}, line 1: the columns are those of no format known here, "
        f"{', '.join(Format)}: {', '.join(table.columns)}"
    )


def read_window(since: str | None, until: str | None, form: Format) -> Window:
    """As `--from` and `--until` say it. Raises `TableError`."""
    return Window(_option("--from", since, form), _option("--until", until, form))


def _option(name: str, text: str | None, form: Format) -> float | None:
    try:
        return None if text is None else moment(text, form)
    except ValueError as error:
        raise TableError(f"{name}: {error}") from None


def moment(text: str, form: Format) -> float:
    """A time on a format's own clock, as a person writes it. Raises `ValueError`."""
    return _date(text) if form is Format.PHILLY else _seconds(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not abs(found) <= MOST:
        raise ValueError(f"must be a number of seconds, at most {MOST:,.0f}, not {text!r}")
    return found


def _date(text: str) -> float:
    try:
        # Local time without a zone: only differences count.
        found = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        found = math.nan
    if not 0 <= found <= MOST:
        raise ValueError(f"must be a date like 2017-10-03 14:05:59, since 1970, not {text!r}")
    return found


def _venus(row: Row) -> Recorded:
    has = row.values.keys()
    vc = row.text("vc") if "vc" in has else ""
    return Recorded(
        submit_s=row.number("submit_s"),
        run_s=round(row.number("duration_s")),
        gpus=row.whole("gpu_num"),
        vc=vc,
        project=vc,
        user=row.text("user") if "user" in has else "",
        name=f"{row.text('cpu_num')} CPUs" if "cpu_num" in has else "",
    )


def _philly(row: Row) -> Recorded:
    written = row.word("submit_time")
    try:
        submitted = _date(written)
    except ValueError as error:
        raise row.error("submit_time", str(error)) from None
    vc = row.word("vc")
    run_s = round(row.number("duration_s"))
    return Recorded(submitted, run_s, row.whole("gpu_num"), vc=vc, project=vc)


def _ricc(row: Row) -> Recorded:
    # The archive writes -1 for a time that nobody asked for.
    asked = row.number("req_time_s", least=-1)
    return Recorded(
        submit_s=row.number("submit_s"),
        run_s=round(row.number("run_s", least=-1)),
        gpus=row.whole("procs_alloc"),
        project=row.word("group"),
        user=row.word("user"),
        name=row.text("queue") if "queue" in row.values else "",
        request_s=round(asked) if asked > 0 else None,
    )


_READERS: dict[Format, tuple[tuple[str, ...], Callable[[Row], Recorded]]] = {
    Format.VENUS: (("submit_s", "duration_s", "gpu_num"), _venus),
    Format.PHILLY: (("submit_time", "duration_s", "gpu_num", "vc"), _philly),
    Format.RICC: (("submit_s", "run_s", "procs_alloc", "req_time_s", "user", "group"), _ricc),
}
_SIGNS = {
    Format.RICC: {"submit_s", "run_s", "procs_alloc"},
    Format.PHILLY: {"submit_time", "duration_s", "gpu_num"},
    Format.VENUS: {"submit_s", "duration_s", "gpu_num"},
    Format.OPENB: {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli"},
}


@dataclass(frozen=True)
class Cluster:
    """How many nodes of 8 GPUs each part of a cluster has; the part "" is all of it."""

    nodes: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.nodes.values())


def find_cluster(text: str, folder: Path = Path()) -> Cluster:
    """A number of nodes, or a file of that folder. Raises `TableError`."""
    try:
        nodes = float(text)
    except ValueError:
        return read_cluster(folder / text)
    if not (1 <= nodes <= MAX_CLUSTER and nodes.is_integer()):
        raise TableError(f"a cluster has from 1 to {MAX_CLUSTER:,} nodes, not {text}")
    return Cluster({"": int(nodes)})


def read_cluster(path: Path) -> Cluster:
    """A table `vc,nodes`, or `vc,node num`. Raises `TableError`."""
    table = read_table(path)
    column = "node num" if "node num" in table.columns else "nodes"
    table.require("vc", column)
    nodes: dict[str, int] = {}
    for row in table.rows:
        vc = row.word("vc")
        if vc in nodes:
            raise row.error("vc", f"{vc} is there twice")
        nodes[vc] = row.whole(column, least=1, most=MAX_CLUSTER)
    if not nodes:
        raise TableError(f"{table.file}: there are no nodes in it")
    cluster = Cluster(nodes)
    if cluster.total > MAX_CLUSTER:
        raise TableError(f"{table.file}: there are more than {MAX_CLUSTER:,} nodes in it")
    return cluster


@dataclass(frozen=True)
class Kept:
    """The jobs that a cluster can run at all, and why the others were left out."""

    jobs: tuple[Recorded, ...]
    left_out: tuple[str, ...] = ()
    """A sentence each."""


def keep_possible(jobs: Iterable[Recorded], cluster: Cluster, gpus_per_node: int) -> Kept:
    """Leave out the jobs of VCs without nodes, those that are too large, and those without GPUs.

    Too large is what has more GPUs than its VC, or more nodes than a request may ask for.
    The published runs leave them out, too. A cluster of one part takes the jobs of all VCs.
    """
    whole = len(cluster.nodes) == 1
    kept: list[Recorded] = []
    reasons: dict[str, int] = {}
    for job in jobs:
        nodes = cluster.total if whole else cluster.nodes.get(job.vc, 0)
        if not job.gpus:
            why = "ask for no GPU"
        elif not nodes:
            why = f"are of {job.vc or 'no VC'}, which has no nodes"
        elif job.gpus > MAX_NODES * gpus_per_node:
            why = f"ask for more GPUs than {MAX_NODES:,} nodes have, the most of one job"
        elif job.gpus > nodes * gpus_per_node:
            why = f"ask for more GPUs than {job.vc or 'the cluster'} has"
        else:
            kept.append(job)
            continue
        reasons[why] = reasons.get(why, 0) + 1
    return Kept(tuple(kept), tuple(f"{number} jobs {why}" for why, number in reasons.items()))
