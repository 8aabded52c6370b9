"""What `docs/quotas.md` works out by hand is what the code says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from jobs.bands import Band
from jobs.scheduler.counters import Counters
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Demand, Holding, Limited, Limits, Quota, Scope, Usage
from jobs.scheduler.periods import CalendarMonth
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Policy
from jobs.scheduler.snapshot import Running, Snapshot
from jobs.scheduler.tally import BORROWS, FITS
from tests.jobs.scheduler import worked_examples
from tests.jobs.scheduler.clusters import node, pending
from tests.jobs.scheduler.clusters import running as running_job
from tests.jobs.scheduler.generated import usage
from tests.jobs.scheduler.worked_examples import Row, number

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
USERS = ("ada", "ben", "cyd")
KINDS = {
    "GPUs": Limited.GPUS,
    "GPU-hours": Limited.GPU_HOURS,
    "jobs running": Limited.JOBS_RUNNING,
}


def table(title: str) -> list[Row]:
    return worked_examples.table(title, "quotas.md")


def maybe(text: str) -> float | None:
    return number(text) if text else None


ROWS = {row["project"]: row for row in table("Example: limits")}
IDS = {name: at for at, name in enumerate(ROWS)}
PROJECTS = [
    Project(IDS[name], name, IDS[row["in"]] if row["in"] else None) for name, row in ROWS.items()
]


def of_project(row: Row) -> Quota:
    jobs_running = int(row["jobs running"]) if row["jobs running"] else None
    limits = Limits(maybe(row["GPUs"]), maybe(row["GPU-hours"]), jobs_running)
    return Quota(IDS[row["project"]], limits)


def of_each_user(row: Row) -> Quota:
    return Quota(IDS[row["project"]], Limits(gpus=maybe(row["GPUs of each user"])), Scope.USER)


def demand(row: Row) -> Demand:
    return Demand(
        job_id=int(row.get("job", "0")),
        project_id=IDS[row["project"]],
        user_id=USERS.index(row["user"]),
        band=Band(row["band"]),
        gpus=number(row["GPUs"]),
        walltime_s=int(row["walltime, h"]) * 3600,
        partition="gpu",
    )


def running() -> list[Holding]:
    return [
        Holding(demand(row), NOW - number(row["ran, h"]) * timedelta(hours=1))
        for row in table("Example: running")
    ]


def counters() -> Counters:
    used = {
        (IDS[row["project"]], USERS.index(row["user"]), Band.BATCH): number(row["GPU-hours"]) * 3600
        for row in table("Example: used this month")
    }
    quotas = [quota(row) for row in ROWS.values() for quota in (of_project, of_each_user)]
    return Counters(
        PROJECTS, quotas, Usage(NOW, tuple(running()), used={CalendarMonth(): used})
    )  # fmt: skip


def test_what_running_jobs_hold() -> None:
    for row, holding in zip(table("Example: running"), running(), strict=True):
        if row["holds"]:
            left = holding.seconds_left(NOW) * holding.demand.gpus
            assert left == number(row["holds"]) * 3600


def test_what_is_left() -> None:
    count = counters()
    for row in table("Example: left"):
        user, _, project = row["whose"].rpartition(" in ")
        quota = (of_each_user if user else of_project)(ROWS[project])
        standing = count.standing(quota, USERS.index(user) if user else None)
        found = standing[KINDS[row["limit"]]]
        told = [number(row[column]) for column in ("of", "used", "held", "available")]
        assert [found.limit, found.used, found.held, found.available] == told, row["whose"]


def test_answers() -> None:
    count = counters()
    answers = []
    for row in table("Example: answers"):
        asked = demand(row)
        group = count.group(asked.project_id, asked.user_id, asked.band)
        why = count.why(group, asked.gpus, asked.gpu_seconds)
        answer = " ".join(one.sentence for one in why) or "starts"
        refused = count.tree.refuse(asked)
        assert (count.check(group, asked.gpus, asked.gpu_seconds) == FITS) == (answer == "starts")
        answers.append(f"refused: {refused.sentence}" if refused else answer)
    assert answers == [row["answer"] for row in table("Example: answers")]


def test_lending() -> None:
    lab, vision, robots = (IDS[name] for name in ("lab", "vision", "robots"))
    quotas = tuple(
        Quota(project_id, Limits(gpus=number(ROWS[name]["GPUs"])))
        for name, project_id in IDS.items()
    )
    active: list[Running] = []
    for minute, row in enumerate(table("Example: lent")):
        now = NOW + minute * timedelta(minutes=1)
        gpus = int(row["GPUs"])
        asks = pending(minute + 1, gpus, project_id=IDS[row["project"]])
        used = {job.id: int(job.gpus) for job in active}
        asked = Snapshot(
            (node(1, gpus=64, used=used),), (asks,), tuple(active), projects=tuple(PROJECTS),
            quotas=quotas, lends=frozenset({lab}), quota_usage=usage([asks], active),
            policy=Policy(min_run_s=0),
        )  # fmt: skip
        decided = plan(asked, now)
        answer = "waits"
        if decided.starts:
            before = counted(asked)
            group = before.group(asks.project_id, asks.user_id, asks.band)
            borrows = before.check(group, gpus, 0) == BORROWS
            answer = "borrows" if borrows else "starts"
            begun = running_since(minute + 1, now, asks.project_id, gpus)
            active.append(begun)
        elif decided.preempted:
            gone = [job for job in active if job.id in {one.job_id for one in decided.preempted}]
            assert [job.gpus for job in gone] == [6], "the younger one"
            names = {PROJECTS[job.project_id].name for job in gone}
            answer += f", takes back from {', '.join(names)}"
        runs = [
            sum(job.gpus for job in active if job.project_id == one) for one in (vision, robots)
        ]
        told = (row["answer"], number(row["vision"]), number(row["robots"]))
        assert (answer, *runs) == told
        after = counted(replace(asked, quota_usage=usage([], active)))
        beyond = [
            f"{name} by {over:g}" for name in IDS if (over := after.over_guarantee(IDS[name]))
        ]
        assert ", ".join(beyond) == row["beyond the guarantee"]


def running_since(job_id: int, start: datetime, project_id: int, gpus: int) -> Running:
    return replace(
        running_job(job_id, 600, 1), project_id=project_id, gpus=gpus, started_at=start
    )  # fmt: skip


def counted(asked: Snapshot) -> Counters:
    told = asked.quota_usage or Usage(NOW)
    return Counters(asked.projects, asked.quotas, told, asked.lends)
