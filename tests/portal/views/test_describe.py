"""A node's features and switches: everybody sees them, administrators set them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from portal.models import Node, Project, User
from tests.portal import cast
from tests.portal.views.forms import filled, last, preview, refused, save

HERE = "/nodes/gpu-1/describe/"


def waiting(owner: User, project: Project, name: str, **asked: object) -> Any:
    return cast.job(
        owner, project, name=name, gpus=0, spec={"name": name, "resources": asked},
        node_count=asked.get("nodes", 1),
    )  # fmt: skip


def test_they_are_set_and_seen(as_admin: Client, as_alice: Client, node: Node) -> None:
    page = as_alice.get("/nodes/gpu-1/").text
    assert "Features" not in page
    assert "Switches" not in page
    assert f'href="{HERE}"' in as_admin.get("/nodes/gpu-1/").text
    given = filled(as_admin, HERE, features=" infiniband,nvme ", switches="leaf1 spine")
    assert save(as_admin, HERE, **given)["Location"] == "/nodes/gpu-1/"
    node.refresh_from_db()
    assert (node.features, node.switches) == (["infiniband", "nvme"], ["leaf1", "spine"])
    assert last() == (
        "node set",
        {"features": [[], ["infiniband", "nvme"]], "switches": [[], ["leaf1", "spine"]]},
    )
    page = as_alice.get("/nodes/gpu-1/").text
    for words in ("infiniband, nvme", "leaf1, spine", "--constraint", "--switches",
                  "switches: none → leaf1, spine"):  # fmt: skip
        assert words in page
    assert HERE not in page, "only administrators are offered what only they may do"
    assert "features: none → infiniband, nvme" in as_admin.get(HERE).text
    assert filled(as_admin, HERE)["switches"] == "leaf1, spine"
    save(as_admin, HERE, **filled(as_admin, HERE, features="", switches=""))
    node.refresh_from_db()
    assert (node.features, node.switches) == ([], [])


def test_only_administrators_set_them(as_alice: Client, node: Node) -> None:
    for answer in (as_alice.get(HERE), as_alice.post(HERE, {"features": "mine"})):
        assert answer.status_code == 403
    node.refresh_from_db()
    assert node.features == []


def test_of_a_node_that_is_not_there(as_admin: Client, node: Node) -> None:
    Node.objects.update(removed_at=cast.NOW)
    assert as_admin.get(HERE).status_code == 404
    assert as_admin.get("/nodes/%00/describe/").status_code == 404


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ({"features": "a&b, c"}, {"features": "&#x27;a&amp;b&#x27; is not a name"}),
        ({"switches": "<leaf>"}, {"switches": "&#x27;&lt;leaf&gt;&#x27; is not a name"}),
        (
            {"features": "?", "switches": "leaf, leaf"},
            {"features": "is not a name", "switches": "leaf cannot be above itself"},
        ),
        (
            {"features": "!", "switches": "leaf3, spine"},
            {"features": "is not a name", "switches": "gpu-2 says leaf2, spine, core"},
        ),
        ({"features": "x" * 10_001}, {"features": "at most 10000 characters"}),
        ({"features": "a\0b"}, {"features": "Null characters are not allowed"}),
    ],
)
def test_what_is_wrong_is_told_at_its_field_and_kept(
    as_admin: Client, node: Node, given: dict[str, str], messages: dict[str, str]
) -> None:
    cast.node("gpu-2", switches=["leaf2", "spine", "core"])
    asked = filled(as_admin, HERE, **given)
    assert set(refused(as_admin, HERE, **asked)) == set(messages)
    page = as_admin.post(HERE, asked)
    for name, message in messages.items():
        assert message in page.text
        assert page.context["form"][name].value() == given[name]


def test_other_nodes_switches_are_told(as_admin: Client, node: Node) -> None:
    for name in ("gpu-2", "gpu-3"):
        cast.node(name, switches=["leaf2", "spine"])
    cast.node("gpu-4", switches=["leaf3", "spine"])
    page = as_admin.get(HERE).text
    assert "Other nodes: leaf2, spine; leaf3, spine." in page


def test_a_preview_tells_who_could_never_start_any_more(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    save(as_admin, HERE, **filled(as_admin, HERE, features="infiniband"))
    job = waiting(alice, project, "picky", features=["infiniband"])
    waiting(alice, project, "modest")
    shown = preview(as_admin, HERE, **filled(as_admin, HERE, features=""))
    told = shown.context["preview"]
    assert [(hit.job, hit.why) for hit in told.never] == [
        (
            job,
            "It asks for infiniband; no node of partition gpu has that. There are: NVIDIA "
            "A100-SXM4-80GB. It cannot start unless such a node is added.",
        )
    ]
    assert not told.planned.lost.count, "it is told once"
    assert "This waiting job could never start." in shown.text
    assert "features: infiniband → none" in shown.text


def test_a_preview_tells_who_could_start_then(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    cast.node("gpu-2", switches=["leaf1"])
    pair = waiting(alice, project, "pair", nodes=2, max_switches=1)
    shown = preview(as_admin, HERE, **filled(as_admin, HERE, switches="leaf1"))
    assert shown.context["preview"].freed_count == 1
    assert [hit.job for hit in shown.context["preview"].planned.starting.hits] == [pair]
