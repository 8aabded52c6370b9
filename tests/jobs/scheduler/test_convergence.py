"""With endless demand usage comes to what the shares say, whatever the jobs are like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count, islice
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.scheduler.fairshare import Member, Project
from jobs.scheduler.snapshot import Pending, Snapshot
from jobs.scheduler.usage import Decay
from tests.jobs.scheduler.clusters import NOW, node, pending
from tests.jobs.scheduler.generated import PLAIN, seeds
from tests.jobs.scheduler.play import Play

HOUR = 3600
HALF_LIFE_H = 8
DAYS = 3
CLOSE = 0.05 + 4 * 3 / (8 * 24 * DAYS / 2)
"""A twentieth, and what the largest job is of all that is used meanwhile."""
WAITING = 4
"""So many of each project wait at any time."""
BACKLOG = 60
"""So many of the project with the least shares have waited for days."""
IDLE = 98
"""Members of another project who never run anything, and are before all others in fair share."""
CROWD = 12
"""So many share what the project with the least shares has."""


@settings(max_examples=max(1, settings().max_examples // 12))
@given(
    st.sampled_from([(1, 1), (3, 1), (1, 1, 1), (3, 2, 1)]), seeds,
    st.sampled_from([0, IDLE]), st.sampled_from([0, BACKLOG]), st.sampled_from([1, CROWD]),
)  # fmt: skip
@example((3, 1), 0, IDLE, BACKLOG, 1)
@example((3, 1), 0, 0, BACKLOG, CROWD)
def test_usage_converges_to_the_shares(
    shares: tuple[int, ...], seed: int, idle: int, backlog: int, crowd: int
) -> None:
    """From any beginning; jobs of one project may be large and long, those of another small.
    However many members work or not, and whoever's jobs have waited for longer."""
    projects = tuple(Project(n, f"p{n}", None, part) for n, part in enumerate(shares, 1))
    others = Project(len(projects) + 1, "idle", None)
    start = Snapshot(
        (node(1), node(2)),
        (),
        projects=(*projects, others),
        members=(
            *(Member(project.id, project.id) for project in projects),
            *(Member(len(projects), 100 + number) for number in range(1, crowd)),
            *(Member(others.id, 200 + number) for number in range(idle)),
        ),
        usage=tuple(((p.id, p.id), float(Random(seed + p.id).choice([0, 9e4]))) for p in projects),
        policy=PLAIN,
    )
    play = Play(start, _shorter(seed), Decay(HALF_LIFE_H * HOUR))
    coming = {project.id: _jobs(seed, project.id) for project in projects}
    coming[len(projects)] = _shared_by(crowd, coming[len(projects)])
    waiting = islice(coming[len(projects)], backlog)
    play.submit(replace(job, submitted_at=NOW - timedelta(days=4)) for job in waiting)
    seen_s, parts = 0.0, [0.0 for _ in projects]
    while play.now < NOW + timedelta(days=DAYS):
        _top_up(play, coming)
        play.decide()
        before = play.now
        play.advance()
        if before > NOW + timedelta(days=DAYS / 2):
            lasted_s = (play.now - before).total_seconds()
            used = [_used(play, project.id) for project in projects]
            seen_s += lasted_s
            parts = [
                part + lasted_s * one / sum(used) for part, one in zip(parts, used, strict=True)
            ]
    for part, share in zip(parts, shares, strict=True):
        assert abs(part / seen_s - share / sum(shares)) < CLOSE, (shares, parts, seen_s)


def _used(play: Play, project_id: int) -> float:
    return sum(used for (project, _), used in play.usage.items() if project == project_id)


def _top_up(play: Play, coming: dict[int, Iterator[Pending]]) -> None:
    waiting = Counter(job.project_id for job in play.snapshot.pending)
    for project_id, jobs in coming.items():
        missing = WAITING - waiting[project_id]
        more = [next(jobs) for _ in range(missing)]
        play.submit(replace(job, submitted_at=play.now) for job in more)


def _jobs(seed: int, project_id: int) -> Iterator[Pending]:
    dice = Random(f"{project_id} {seed}")
    sizes, hours = dice.choice([(1,), (1, 2, 4), (4,)]), dice.choice([(1,), (1, 2), (3,)])
    for number in count(1):
        yield pending(
            100_000 * project_id + number,
            dice.choice(sizes),
            walltime_s=dice.choice(hours) * HOUR,
            project_id=project_id,
            user_id=project_id,
        )


def _shared_by(crowd: int, jobs: Iterator[Pending]) -> Iterator[Pending]:
    """One after the other."""
    for number, job in enumerate(jobs):
        yield replace(job, user_id=100 + number % crowd) if number % crowd else job


def _shorter(seed: int):  # type: ignore[no-untyped-def]
    return lambda job_id, limit: round(limit * Random(f"{job_id} {seed}").uniform(0.3, 1))
