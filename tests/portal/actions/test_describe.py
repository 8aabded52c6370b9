"""Features and switches of nodes, as an administrator says them."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from jobs.scheduler.fit import refuse
from jobs.spec import Resources
from portal import hints
from portal.actions.describe import MOST_FEATURES, MOST_SWITCHES, describe
from portal.models import Event, Node, User
from portal.queries import machines
from tests.portal import cast
from tests.portal.cast import NOW


def said(node: Node) -> tuple[list[str], list[str]]:
    node.refresh_from_db()
    return node.features, node.switches


def test_what_is_said_is_what_jobs_are_placed_by(
    node: Node, admin: User, monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:  # fmt: skip
    asked = Resources(features=("infiniband",), nodes=2, max_switches=1)
    other = cast.node("gpu-2")
    assert refuse(asked, machines.empty(), "gpu")
    hinted: list[bool] = []
    monkeypatch.setattr(hints, "schedule", lambda: hinted.append(True))
    by = {"actor": admin, "now": NOW}
    both = describe(
        nodes=[node, other], features=["infiniband", "nvme"], switches=["leaf1", "spine"], **by
    )
    assert both == [node, other]
    assert said(node) == said(other) == (["infiniband", "nvme"], ["leaf1", "spine"])
    assert refuse(asked, machines.empty(), "gpu") is None
    event = Event.objects.get(node=node)
    assert (event.kind, event.actor, event.changes) == (
        "node set",
        admin,
        {"features": [[], ["infiniband", "nvme"]], "switches": [[], ["leaf1", "spine"]]},
    )
    assert hinted == [True]
    describe(nodes=[other], features=[], **by)
    assert said(other) == ([], ["leaf1", "spine"])
    assert refuse(asked, machines.empty(), "gpu") == (
        "asks for 2 nodes with infiniband each; only 1 node (gpu-1) has that"
    )
    describe(nodes=[other], features=["infiniband"], switches=[], **by)
    assert refuse(asked, machines.empty(), "gpu") == (
        "asks for 2 nodes on 1 switch; no switch of partition gpu has more than 1 such node, "
        "and the switches of gpu-2 are not known"
    )


def test_what_is_so_already_changes_nothing(node: Node, admin: User) -> None:
    by = {"actor": admin, "now": NOW}
    described = {"features": ["a", "b", "a"], "switches": ["leaf"]}
    assert describe(nodes=[node], **described, **by) == [node]
    assert said(node)[0] == ["a", "b"], "twice is once"
    assert describe(nodes=[node], **described, **by) == []
    assert describe(nodes=[node], **by) == []
    assert Event.objects.count() == 1


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"features": ["a&b"]}, "features", "'a&b' is not a name; use letters, digits"),
        ({"features": ["-x"]}, "features", "'-x' is not a name"),
        ({"features": ["x" * 101]}, "features", "is not a name"),
        (
            {"features": list(map(str, range(MOST_FEATURES + 1)))},
            "features",
            f"These are {MOST_FEATURES + 1}; a node may have {MOST_FEATURES} features at most.",
        ),
        ({"switches": ["<b>"]}, "switches", "'<b>' is not a name"),
        (
            {"switches": ["leaf", "spine", "leaf"]},
            "switches",
            "leaf cannot be above itself; name each switch once, the nearest first.",
        ),
        (
            {"switches": list(map(str, range(MOST_SWITCHES + 1)))},
            "switches",
            f"These are {MOST_SWITCHES + 1}; a node may have {MOST_SWITCHES} switches at most.",
        ),
    ],
)
def test_what_is_refused_says_why(
    node: Node, admin: User, given: dict[str, list[str]], field: str, message: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        describe(nodes=[node], actor=admin, now=NOW, **given)
    assert list(refused.value.message_dict) == [field]
    assert message in refused.value.message_dict[field][0]
    assert said(node) == ([], [])


def test_both_fields_are_told_of(node: Node, admin: User) -> None:
    with pytest.raises(ValidationError) as refused:
        describe(nodes=[node], features=["?"], switches=["!"], actor=admin, now=NOW)
    assert set(refused.value.message_dict) == {"features", "switches"}


def test_a_switch_has_the_same_above_it_on_every_node(node: Node, admin: User) -> None:
    other = cast.node("gpu-2", switches=["leaf2", "spine", "core"])
    gone = cast.node("gpu-3", switches=["leaf1", "elsewhere"], removed_at=NOW)
    by = {"actor": admin, "now": NOW}
    with pytest.raises(ValidationError) as refused:
        describe(nodes=[node], switches=["leaf1", "spine"], **by)
    assert refused.value.message_dict["switches"][0].startswith(
        "Above spine would be nothing; gpu-2 says leaf2, spine, core, with core above spine. "
    )
    assert describe(nodes=[node, other], switches=["leaf2", "spine"], **by) == [node, other]
    assert describe(nodes=[node], switches=["leaf1", "spine"], **by) == [node]
    assert describe(nodes=[gone], switches=["leaf9"], **by) == [], "it is no node any more"
