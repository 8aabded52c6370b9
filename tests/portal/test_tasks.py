"""How often passes explain."""

from __future__ import annotations

from typing import Any

import pytest

from portal import broker, tasks
from portal.pace import Pace


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each pass explained; each takes three seconds of its thread's time."""
    broker.connection().flushdb()
    monkeypatch.setattr(tasks, "_passes", Pace(per_s=1e6, burst=4))
    told, clock = list[bool](), iter(range(0, 999, 3))

    def passed(*, now: Any, explain: bool = True) -> int:
        told.append(explain)
        return 0

    monkeypatch.setattr(tasks.scheduling, "schedule", passed)
    monkeypatch.setattr(tasks.time, "thread_time", lambda: next(clock))
    monkeypatch.setattr(tasks.hints, "schedule", lambda **_: None)
    return told


def test_the_longer_it_takes_to_explain_the_less_often_it_is_done(
    passes: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks.schedule()
    assert tasks.EXPLAIN_EVERY_S < broker.left("explained") <= 3 * tasks.EXPLAIN_PART
    tasks.schedule()
    broker.clear("explained")
    assert broker.left("explained") == 0
    # The pass before took so long that this one would have to wait.
    monkeypatch.setattr(tasks, "_passes", Pace(per_s=1, burst=1))
    tasks.schedule()
    assert passes == [True, False, True]


def test_passes_that_do_not_explain_take_a_part_of_the_time_too(
    passes: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Pace(per_s=1, burst=2)
    monkeypatch.setattr(tasks, "_passes", pace)
    assert broker.first("explained", 60)
    tasks.schedule()
    assert passes == [False]
    assert 3 * tasks.PASS_PART - 2 < pace.delay() <= 3 * tasks.PASS_PART
