"""Workers are killed at any step of a round, three are at it at once, and each pass is delivered
twice: nothing is leased or charged twice, and the next rounds bring everything where it belongs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from django.db import connection
from django.utils import timezone

from portal import broker
from tests.portal.crashes import books, scene
from tests.portal.crashes.rows import Rows, wait_for_the_dead
from tests.portal.crashes.workers import COUNT, Fate, Workers, workers

DEEP = os.environ.get("CARREL_TEST_PROFILE") == "deep"
KILLS = 10
"""In the short profile; in the deep one, before every step."""
CROWDS = 400 if DEEP else 4
MAX_ROUNDS = 6


class Cluster:
    """The scene, put back before each case, and workers on it."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        now = timezone.now()
        self._charged_from = now - scene.HOUR
        scene.make(now)
        self._rows = Rows()
        self.work(None)
        self.end = self._end()
        # Not of the first round, which takes longer, and so may explain once more.
        self.put_back()
        (alone,) = self.work(COUNT)
        self.steps = alone.steps

    def work(self, *kill_before: int | None) -> list[Fate]:
        """Workers at it at once; what must hold does hold then."""
        # A flag there would let the first of many cases explain, and no other.
        broker.connection().flushall()
        fates = self._workers.work(*kill_before)
        wait_for_the_dead()
        books.hold(self._charged_from)
        return fates

    def put_back(self) -> None:
        self._rows.put_back()

    def wrong(self) -> dict[str, object]:
        """Who does not stand, after rounds in which nobody is killed, where such rounds lead from
        the beginning."""
        for _ in range(MAX_ROUNDS):
            if books.outcome() == self.end:
                break
            self.work(None)
        return {name: job for name, job in books.outcome().items() if job != self.end[name]}

    def _end(self) -> books.Outcome:
        """Where all stand when a round changes nothing any more."""
        for _ in range(MAX_ROUNDS):
            before = books.outcome()
            self.work(None)
            if books.outcome() == before:
                return before
        raise AssertionError(f"it still goes on after {MAX_ROUNDS} rounds: {before}")


@pytest.fixture
def cluster(transactional_db: None) -> Iterator[Cluster]:
    database = str(connection.settings_dict["NAME"])
    with workers(f"{scene.__name__}:work", database) as started:
        yield Cluster(started)


def test_the_scene_has_all_that_a_pass_can_do(cluster: Cluster) -> None:
    state = {name: job.state for name, job in cluster.end.items()}
    assert state["takes"] == "RUNNING"
    assert cluster.end["gives-way"].outcomes == ("PREEMPTED",)
    assert cluster.end["gives-way-gang"].outcomes == ("PREEMPTED",)
    assert cluster.end["takes"].shares == {"n1": 3, "n2": 3}
    assert sum(cluster.end["gang"].shares.values()) == 2
    assert cluster.end["parts-1"].shares == cluster.end["parts-3"].shares | {"n3": 1}
    assert cluster.end["parts-3"].shares == {"n3": 3}
    waits = {name: job.reason for name, job in cluster.end.items() if job.state == "PENDING"}
    assert waits["parts-2"] == "Resources"
    assert waits["small-2"] == "AssocGrpGRES"
    assert waits["beyond-window"] == "Reservation"
    assert waits["task-2"] == waits["task-3"] == "JobArrayTaskLimit"
    assert (waits["held"], waits["after"]) == ("JobHeldUser", "Dependency")
    assert state["too-late"] == "DEADLINE"


@pytest.mark.timeout(7200 if DEEP else 600)
def test_killed_at_any_step_it_is_done_once_in_the_end(cluster: Cluster) -> None:
    every = range(cluster.steps)
    for step in every if DEEP else random.Random(7).sample(every, KILLS):
        cluster.put_back()
        (fate,) = cluster.work(step)
        assert fate.killed, step
        assert not cluster.wrong(), f"killed before step {step}"


@pytest.mark.timeout(7200 if DEEP else 600)
def test_three_at_once_of_whom_two_are_killed(cluster: Cluster) -> None:
    for seed in range(CROWDS):
        dice = random.Random(seed)
        cluster.put_back()
        # Who finds another one at a pass does fewer steps, and may get through.
        cluster.work(None, dice.randrange(cluster.steps), dice.randrange(cluster.steps))
        assert not cluster.wrong(), f"seed {seed}"


def test_three_who_all_get_through(cluster: Cluster) -> None:
    cluster.put_back()
    assert not any(fate.killed for fate in cluster.work(None, None, None))
    assert not cluster.wrong()
