"""What waiting jobs are promised is kept: to the first in order by the clock, and to all of them
whatever is done for those behind."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Backfill, Order
from jobs.scheduler.rank import ranked
from jobs.scheduler.room import Hold, Room
from jobs.scheduler.snapshot import Pending, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN, late, seeds, snapshots
from tests.jobs.scheduler.play import Play, cut_short, promised, promises
from tests.jobs.scheduler.recount import able, enough

IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
promising = st.sampled_from([Backfill.RESERVING, Backfill.EASY])


def crowded(seed: int) -> Snapshot:
    """Large jobs wait for nodes that are free at the same times, and small long ones come after
    them, for whom promises have to move."""
    dice = Random(seed)
    ends = {50 + number: dice.choice([60, 60, 120]) for number in range(1, 7)}
    large = [pending(number, dice.choice([2, 2, 3])) for number in range(1, dice.randint(3, 7))]
    small = [pending(number, 1, walltime_s=36_000) for number in range(7, 7 + dice.randint(1, 5))]
    return Snapshot(
        tuple(node(number, used={50 + number: 3}) for number in range(1, 7)),
        (*large, *small),
        tuple(running(job_id, end, job_id - 50) for job_id, end in ends.items()),
        policy=PLAIN,
    )


either = snapshots(plain=True) | seeds.map(crowded)


def test_a_promise_counts_on_those_before_where_they_really_go() -> None:
    """As in the example of `docs/scheduling.md` half a GPU goes to n3, and not to the fullest."""
    nodes = [
        node(1, gpus=1, cpus_free=16),
        node(2, gpus=1, cpus_free=16, jobs=(50,)),
        node(3, gpus=1, cpus=4),
    ]
    nodes = [replace(n, gpus=(replace(n.gpus[0], shards=2),)) for n in nodes]
    nodes[1] = replace(nodes[1], gpus=(replace(nodes[1].gpus[0], sharers=((50, 1),)),))
    half = pending(1, shards=1, cpus_per_task=4, walltime_s=20_000)
    queue = (
        half,
        pending(2, exclusive=True, only_nodes=("n3",)),
        *(replace(half, id=number, held=True) for number in range(10, 20)),
        *(pending(number, 1, cpus_per_task=8, held=True) for number in range(20, 30)),
    )
    asked = Snapshot(tuple(nodes), queue, (running(50, 600, 2),), policy=IN_ORDER)
    assert promised(asked, NOW) == {2: NOW.timestamp() + 20_000}


@given(either, st.sampled_from([1, 2, 16]))
def test_promises_hold_side_by_side(snapshot: Snapshot, reservations: int) -> None:
    """At every moment: what is promised then, and who is still there, fit on the node together."""
    policy = replace(PLAIN, reservations=reservations)
    pools = promises(replace(snapshot, policy=policy), NOW)
    for room in (room for pool in pools.values() for room in pool.rooms):
        for moment in {held.start for held in room.booked}:
            there = [h for h in (*room.holds.values(), *room.booked) if h.start <= moment < h.end]
            _fit_together(room, there)
    given_at = {job: p for pool in pools.values() for job, p in pool.promises.items()}
    claimed = {job.id for job in snapshot.pending if job.claimed_at is not None}
    room_is_made = any(run.leaving for run in snapshot.running)
    assert room_is_made or len(given_at.keys() - claimed) <= reservations
    for job in snapshot.pending:
        if job.id in given_at:
            chosen = [room.node for room, _ in given_at[job.id].site]
            assert len({n.id for n in chosen}) == job.resources.nodes
            assert enough(chosen, job.resources)
            assert all(able(n, job.resources) for n in chosen)


def _fit_together(room: Room, there: list[Hold]) -> None:
    whole = Counter(at for h in there for at in range(9) if h.part.gpus >> at & 1)
    parts: Counter[int] = Counter()
    for at, shards in (one for h in there for one in h.part.shards):
        parts[at] += shards
    assert not whole or max(whole.values()) == 1
    assert not set(whole) & set(parts)
    assert all(shards <= room.gpus[at].shards for at, shards in parts.items())
    assert sum(h.part.cpus for h in there) <= room.node.cpus
    assert sum(h.part.memory_mib for h in there) <= room.node.memory_mib
    assert len(there) <= 1 or not any(h.part.alone for h in there)


@given(either, promising, st.sampled_from([1, 2, 16]))
def test_no_promise_depends_on_those_behind(
    snapshot: Snapshot, backfill: Backfill, reservations: int
) -> None:
    """All that a pass promises is what it would be if nobody behind could start."""
    policy = replace(PLAIN, backfill=backfill, reservations=reservations)
    asked = replace(snapshot, policy=policy)
    order = [job.id for job in ranked(asked, NOW)]
    for job_id, at in promised(asked, NOW).items():
        behind = order[order.index(job_id) + 1 :]
        queue = tuple(replace(job, held=job.id in behind) for job in asked.pending)
        assert promised(replace(asked, pending=queue), NOW)[job_id] == at


@settings(max_examples=max(1, settings().max_examples // 2))
@given(either, seeds, promising)
def test_promises_are_kept_or_bettered(snapshot: Snapshot, seed: int, backfill: Backfill) -> None:
    """While jobs end at their limits or before, and lower ones come all the time: to the first in
    order, and to all others as far as those before them do not put them off."""
    policy = replace(IN_ORDER, backfill=backfill, reservations=1 + seed % 3)
    play = Play(replace(snapshot, policy=policy), cut_short(seed))
    kept: dict[int, float] = {}
    for turn in range(12):
        play.submit(late(seed, turn))
        now = play.now.timestamp()
        for job in play.snapshot.pending:
            # By the rule of published simulations only the first one's is a promise.
            if job.id in play.promised and backfill is Backfill.RESERVING:
                assert _alone(play, job) <= play.promised[job.id]
        order = [job.id for job in ranked(play.snapshot, play.now)]
        begun = {start.job_id for start in play.decide().starts}
        assert all(now <= kept.get(job_id, now) for job_id in begun)
        first = next((job_id for job_id in order if job_id not in begun), None)
        if first in play.promised:
            assert play.promised[first] <= kept.get(first, math.inf)
            kept[first] = play.promised[first]
        if not play.advance():
            break


def _alone(play: Play, job: Pending) -> float:
    """When it surely starts if all others withdraw who wait."""
    asked = replace(play.snapshot, pending=(job,))
    now = play.now.timestamp()
    return now if plan(asked, play.now).starts else promised(asked, play.now)[job.id]
