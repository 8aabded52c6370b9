"""What `docs/quotas.md` works out by hand is what the code says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobs.bands import Band
from jobs.scheduler.counters import Counters
from jobs.scheduler.fairshare import Project
from jobs.scheduler.lending import borrowed
from jobs.scheduler.limits import Demand, Holding, Limited, Limits, Quota, Scope, Usage
from jobs.scheduler.periods import CalendarMonth
from jobs.scheduler.tally import BORROWS, FITS
from tests.jobs.scheduler import worked_examples
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
    quotas = [
        Quota(project_id, Limits(gpus=number(ROWS[name]["GPUs"])))
        for name, project_id in IDS.items()
    ]
    count = Counters(PROJECTS, quotas, Usage(NOW), frozenset({lab}))
    runs = {vision: 0.0, robots: 0.0}
    started = []
    for minute, row in enumerate(table("Example: lent")):
        project_id, gpus = IDS[row["project"]], number(row["GPUs"])
        group = count.group(project_id, 0, Band.BATCH)
        found = count.check(group, gpus, 0)
        answer = {FITS: "starts", BORROWS: "borrows"}.get(found, "waits")
        if found < 0:
            count.add(group, gpus, 0)
            runs[project_id] += gpus
            asked = Demand(minute, project_id, 0, Band.BATCH, gpus, 60, "gpu")
            started.append(Holding(asked, NOW + minute * timedelta(minutes=1)))
        elif any(why.owed for why in count.why(group, gpus, 0)):
            names = [PROJECTS[one.project_id].name for one in count.borrowers(group, gpus)]
            answer += f", takes back from {', '.join(names)}"
        beyond = [
            f"{name} by {over:g}" for name in IDS if (over := count.over_guarantee(IDS[name]))
        ]
        told = (row["answer"], number(row["vision"]), number(row["robots"]))
        assert (answer, runs[vision], runs[robots]) == told
        assert ", ".join(beyond) == row["beyond the guarantee"]
    theirs = [holding for holding in started if holding.demand.project_id == vision]
    assert [one.demand.gpus for one in borrowed(theirs, count.over_guarantee(vision))] == [6]
