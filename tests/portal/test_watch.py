"""A node that is followed: what is told of it, and how often its claim is renewed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.engines.ssh import ShepherdEngine
from portal import broker, hints
from portal.models import Node
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
