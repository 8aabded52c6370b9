"""What `docs/scheduling.md` and `preemption.md` work out by hand is what the code says."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs.bands import Band
from jobs.scheduler.fairshare import Member, Project, Standing, standings
from jobs.scheduler.fragmentation import SLACK, Fragmentation, Vacancy
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.predict import History, Work, response_ratio
from jobs.scheduler.priority import LONG_WAIT_S, Factors, PriorityWeights, priority
from jobs.scheduler.rank import is_long, ranked
from jobs.scheduler.snapshot import Pending, Snapshot
from jobs.scheduler.typical import Request, Typical
from jobs.scheduler.usage import (
    Charge,
    Decay,
    EntryPenalty,
    Gpus,
    Held,
    Usage,
    Weights,
    billing,
)
from jobs.scheduler.when import about, spread
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.worked_examples import Row, blocks, number, section, shown, table

DAY_0 = datetime(2026, 11, 21, tzinfo=UTC)


def day(text: str) -> datetime:
    return DAY_0 + timedelta(days=number(text))


@pytest.mark.parametrize("title", ["Example: a tree", "Example: ties"])
def test_fair_share(title: str) -> None:
    rows = {row["name"]: row for row in table(title)}
    ids = {name: index for index, name in enumerate(rows)}
    users = {name: row for name, row in rows.items() if row["rank"]}
    assert 1 < len(users) < len(rows)
    projects = [
        Project(ids[name], name, ids[row["in"]] if row["in"] else None, int(row["shares"]))
        for name, row in rows.items()
        if name not in users
    ]
    members = [
        Member(ids[row["in"]], ids[name], int(row["shares"]), name) for name, row in users.items()
    ]
    usage = {(ids[row["in"]], ids[name]): number(row["used"]) for name, row in users.items()}
    found = standings(projects, members, usage)
    seen = set()
    for name, row in users.items():
        standing = found[(ids[row["in"]], ids[name])]
        assert (standing.rank, standing.factor) == (int(row["rank"]), shown(row["factor"]))
        for level in standing.levels:
            seen.add(level.name)
            at = rows[level.name]
            told = (shown(at["S"]), shown(at["U"]), shown(at["LF"]))
            assert (level.shares, level.usage, level.fairness) == told, level.name
    assert seen == set(rows)
    for project in projects:
        below = [row["used"] for row in rows.values() if row["in"] == project.name]
        assert sum(map(number, below)) == number(rows[project.name]["used"])


@pytest.mark.parametrize(
    ("title", "defaults"), [("Weights", Weights()), ("Priority", PriorityWeights())]
)
def test_default_weights(title: str, defaults: object) -> None:
    told = {row["weight"]: number(row["default"]) for row in table(title)}
    weights = {field.name for field in fields(defaults)} - {"gpu_models", "max_age_s"}
    assert told == {name: getattr(defaults, name) for name in weights}


@pytest.mark.parametrize("row", table("Example: what a second costs"), ids=lambda row: row["model"])
def test_what_a_second_costs(row: Row) -> None:
    weights = Weights({row["model"]: number(row["its weight"])})
    count, shards, whole = (int(row[name]) for name in ("GPUs", "shards", "of"))
    gpus = (Gpus(row["model"], count, shards, whole),)
    cpus, memory_mib = int(row["CPUs"]), int(row["GiB"]) * 1024
    assert billing([Held(cpus=cpus)], weights) == shown(row["CPUs cost"])
    assert billing([Held(memory_mib=memory_mib)], weights) == shown(row["memory costs"])
    assert billing([Held(gpus=gpus)], weights) == shown(row["GPUs cost"])
    assert billing([Held(cpus, memory_mib, gpus)], weights) == shown(row["a second costs"])


def test_fading() -> None:
    for row in table("Example: fading"):
        used = Usage(1000.0, DAY_0).seen(day(row["days ago"]), Decay())
        assert used.value == shown(row["of 1,000 counts"])


def test_a_run() -> None:
    for row in table("Example: a run"):
        charge = Charge(4.8, day(row["from day"]), day(row["to day"]))
        assert charge.gpu_seconds == shown(row["GPU-seconds"])
        used = Usage(0.0, day(row["seen on day"])).charged(charge, Decay())
        assert used.value == shown(row["counts"])


def test_a_penalty_that_shrinks() -> None:
    for row in table("Example: a penalty that shrinks"):
        elapsed_s = number(row["has run, min"]) * 60
        charged = Charge(4.8, DAY_0, DAY_0 + timedelta(seconds=elapsed_s)).gpu_seconds
        penalty = EntryPenalty().remaining(4.8, 36_000, elapsed_s)
        assert charged == shown(row["charged"])
        assert penalty == shown(row["penalty"])
        assert charged + penalty == shown(row["together"])


def test_five_jobs() -> None:
    rows = table("Example: five jobs")
    found = {row["job"]: priority(_factors(row), PriorityWeights(), DAY_0) for row in rows}
    for row in rows:
        assert found[row["job"]].total == shown(row["points"])
    order = sorted(found, key=lambda job: found[job].key, reverse=True)
    assert {job: str(place) for place, job in enumerate(order, 1)} == {
        row["job"]: row["goes"] for row in rows
    }
    (sentences,) = blocks("Example: five jobs")
    assert [part.sentence for part in found["18"].parts] == sentences


def _factors(row: Row) -> Factors:
    place, members = int(row["place in fair share"]), int(row["of"])
    return Factors(
        band=Band(row["band"]),
        standing=Standing(members - place + 1, members, ()),
        gpus=number(row["GPUs"]),
        partition_gpus=int(row["of the partition's"]),
        eligible_at=DAY_0 - timedelta(hours=number(row["waited, h"])),
        nice=int(row["nice"]),
    )


RATIOS = "Example: the longest wait for the shortest run"


def test_the_longest_wait_for_the_shortest_run() -> None:
    jobs = {row["job"]: _waiting(row) for row in table(RATIOS)}
    for order in (Order.RESPONSE_RATIO, Order.FAIR_RATIO):
        asked = Snapshot(
            nodes=(), pending=tuple(jobs.values()), projects=(Project(1, "lab", None),),
            members=tuple(Member(1, user) for user in range(1, 5)),
            usage=tuple(((1, user), 1e3 / user) for user in range(1, 5)),
            policy=Policy(order),
        )  # fmt: skip
        found = [str(job.id) for job in ranked(asked, DAY_0)]
        assert found == sorted(jobs, key=lambda job: int(_row(job)[f"by {order}"]))


def test_the_ratios_of_the_longest_wait_for_the_shortest_run() -> None:
    for row in table(RATIOS):
        waited_s = number(row["waited, h"]) * 3600
        ratio = response_ratio(waited_s, number(row["expected, min"]) * 60)
        if is_long(waited_s):
            ratio = math.inf
        assert ratio == shown(row["ratio"])
        assert ratio * number(row["fair share factor"]) == shown(row["fair ratio"])


def _row(job: str) -> Row:
    return next(row for row in table(RATIOS) if row["job"] == job)


def _waiting(row: Row) -> Pending:
    """Of four users the first has used most."""
    return pending(
        int(row["job"]),
        project_id=1,
        user_id=round(4 * number(row["fair share factor"])),
        submitted_at=DAY_0 - timedelta(hours=number(row["waited, h"])),
        expected_s=number(row["expected, min"]) * 60,
    )


def test_the_orders_are_all_there() -> None:
    assert [row["order"].strip("`") for row in table("Other orders")] == list(Order)


def test_so_long_a_job_waits_at_most() -> None:
    text = " ".join(section("How long a job can wait"))
    assert f"**Who has waited for {LONG_WAIT_S / 86_400:g} days goes before all others" in text


def test_the_bands_stand_in_their_order() -> None:
    text = " ".join(section("Priority"))
    assert re.findall(r"`([a-z-]+)`", text)[: len(Band)] == list(Band)


def test_a_week_of_waiting_counts() -> None:
    (rule,) = blocks("Priority")
    assert "time waited / 7 days" in rule[0]
    assert PriorityWeights().max_age_s == 7 * 86_400


def test_half_a_gpu() -> None:
    rows = table("Example: half a GPU")
    half, whole = Request(shards=1, cpus=4), Request(gpus=1, cpus=8)
    nodes = [
        Vacancy(
            row["node"], int(row["CPUs free"]), 0, (("A100", int(2 * number(row["GPU free"]))),)
        )
        for row in rows
    ]
    found = Fragmentation(nodes, Typical((half, whole), (0.5, 0.5)), {"A100": 2})
    for row, gain in zip(rows, found.scores(half), strict=True):
        assert number(row["worth"]) - number(row["worth with it"]) == number(row["lost"])
        assert -gain == shown(row["lost"])
    (goes,) = [row["node"] for row in rows if row["goes"] == "here"]
    assert found.choose(half) == (goes, (0,))
    assert f"{SLACK} of a GPU" in " ".join(section("Placement"))


def test_three_runs_before() -> None:
    work = Work("ada", "vision", "train", 4, walltime_s=3 * 3600)
    history = History()
    for ago, minutes in enumerate((100, 60, 60)):
        history.observe(work, 60 * minutes, NOW - ago * timedelta(days=1))
    for row in table("Example: three runs before"):
        found = history.predict(work).longer_than(60 * number(row["has run, min"]))
        told = (found.expected_s / 60, found.low_s / 60, found.high_s / 60)
        assert told == tuple(shown(row[name]) for name in ("expected, min", "from, min", "to, min"))


def test_early_and_late() -> None:
    runs, *waits = table("Example: early and late")
    early, expected, late = (NOW + timedelta(minutes=m) for m in _lengths(runs))
    one = replace(running(50, 0, 1), early_end=early, expected_end=expected, ends_by=late)
    full = node(1, int(runs["GPUs"]), {50: int(runs["GPUs"])})
    jobs = tuple(
        pending(
            int(row["job"]), int(row["GPUs"]), walltime_s=60 * _lengths(row)[2],
            expected_s=60.0 * _lengths(row)[1],
            spread_s=(60.0 * _lengths(row)[0], 60.0 * _lengths(row)[2]),
        )
        for row in waits
    )  # fmt: skip
    found = plan(Snapshot((full,), jobs, (one,)), NOW).estimates
    for row in waits:
        told = found[int(row["job"])]
        moments = [f"{moment:%H:%M}" for moment in (told.early, told.at, told.late)]
        assert moments == [row["early"], row["start"], row["late"]]
    last = found[2]
    words = f"{about(last.at, NOW)}, {spread(last.at, last.early, last.late, NOW)}"
    assert f"*{words}*" in " ".join(section("Example: early and late"))


def _lengths(row: Row) -> tuple[int, int, int]:
    return int(row["shortest, min"]), int(row["expected, min"]), int(row["time limit, min"])


def test_who_makes_room_for_4_gpus() -> None:
    rows = table("Example: who makes room for 4 GPUs", "preemption.md")
    there = tuple(
        replace(
            running(int(row["job"]), 600, 1), band=Band.BEST_EFFORT, gpus=number(row["GPUs"]),
            started_at=NOW - timedelta(minutes=int(row["has run, min"])),
            saved_at=NOW - timedelta(minutes=int(row["last checkpoint, min ago"])),
        )
        for row in rows
    )  # fmt: skip
    full = node(1, 8, {job.id: round(job.gpus) for job in there})
    found = plan(Snapshot((full,), (pending(1, 4, band=Band.PRODUCTION),), there), NOW)
    told = {one.job_id for one in found.preempted}
    for row in rows:
        lost = number(row["GPUs"]) * number(row["last checkpoint, min ago"])
        assert lost == number(row["loses, GPU-min"])
        assert (int(row["job"]) in told) == (row["is told"] == "yes")
