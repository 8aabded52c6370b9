"""A node that is followed: what is told of it, and how often its claim is renewed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.engines.ssh import ShepherdEngine
from portal import broker, hints, watch
from portal.models import Node
from portal.pace import Pace
from portal.watch import Watcher


def test_a_talkative_node_costs_no_more_than_a_quiet_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    Node.objects.update(transport=Node.Transport.LOCAL)
    told: list[int] = []
    claimed: list[bool] = []

    def talk(self: ShepherdEngine) -> Iterator[str]:
        for _ in range(500):
            yield "j1.a1.n0.0000"
            claimed.append(bool(broker.connection().exists(f"carrel:watch:{node.pk}")))

    monkeypatch.setattr(ShepherdEngine, "watch", talk)
    monkeypatch.setattr(hints, "observe", told.append)
    broker.connection().config_resetstat()
    Watcher()._follow(Node.objects.get())
    assert claimed == [True] * 500
    assert broker.connection().info("commandstats")["cmdstat_set"]["calls"] < 50
    assert 1 <= len(told) < 50
    assert not broker.connection().exists(f"carrel:watch:{node.pk}")


def test_in_a_rush_all_nodes_together_are_looked_at_so_often_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[int] = []
    monkeypatch.setattr(hints, "observe", told.append)
    monkeypatch.setattr(watch, "Pace", lambda *, per_s, burst: Pace(per_s=per_s / 1e6, burst=burst))
    watcher = Watcher()
    for node_id in [*range(watch.LOOKS_PER_S + 5), 0, 1]:
        watcher._tell(node_id)
    assert told == list(range(watch.LOOKS_PER_S))
    assert list(watcher._changed) == [*range(watch.LOOKS_PER_S, watch.LOOKS_PER_S + 5), 0, 1]
