"""GPUs that several jobs may use, as administrators divide them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from jobs.lifecycle import State
from portal.models import Event, Gpu, Node, Project, User
from tests.portal import cast
from tests.portal.views.forms import filled, last, preview, refused, save

HERE = "/settings/sharing/gpu-1/"


def shards(node: Node) -> list[int]:
    return list(node.gpus.order_by("index").values_list("shards", flat=True))


def test_gpus_are_divided_and_put_together_again(as_admin: Client, node: Node) -> None:
    given = filled(as_admin, HERE, sharing="mps", gpu_0="4", gpu_2="7")
    assert save(as_admin, HERE, **given)["Location"] == "/settings/sharing/"
    node.refresh_from_db()
    assert (shards(node), node.sharing) == ([4, 0, 7, 0], "mps")
    told = Event.objects.order_by("pk").values_list("detail", "changes")
    assert list(told) == [
        ("gpu-1 GPU 0", {"shards": [0, 4], "sharing": ["", "mps"]}),
        ("gpu-1 GPU 2", {"shards": [0, 7]}),
    ]
    page = " ".join(as_admin.get("/settings/sharing/").text.split())
    assert "by CUDA&#x27;s Multi-Process Service" in page
    assert "GPU divided" in page
    assert "parts: 0 → 4" in page
    save(as_admin, HERE, **filled(as_admin, HERE, sharing="time-slicing"))
    node.refresh_from_db()
    assert (shards(node), node.sharing) == ([4, 0, 7, 0], "time-slicing")
    save(as_admin, HERE, **filled(as_admin, HERE, sharing="", gpu_0="0", gpu_2="0"))
    node.refresh_from_db()
    assert (shards(node), node.sharing) == ([0, 0, 0, 0], "")
    assert last()[0] == "GPU divided"
    assert "shared: time-slicing → no" in as_admin.get(HERE).text


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"gpu_0": "4"}, "sharing", "Say how the parts are shared"),
        ({"sharing": "by hope", "gpu_0": "4"}, "sharing", "Select a valid choice"),
        ({"sharing": "mps", "gpu_0": "-1"}, "gpu_0", "Give 0 or more."),
        ({"sharing": "mps", "gpu_0": "65"}, "gpu_0", "Give 64 or less."),
        ({"sharing": "mps", "gpu_1": "23"}, "gpu_1", "1 to 20 parts, or 24, 25, 32, 48 or 64"),
        ({"sharing": "mps", "gpu_1": "2.5"}, "gpu_1", "Enter a whole number."),
        ({"sharing": "mps", "gpu_1": "nan"}, "gpu_1", "Enter a whole number."),
        ({"sharing": "mps", "gpu_1": "\N{OCTOPUS}"}, "gpu_1", "Enter a whole number."),
        ({"sharing": "mps", "gpu_3": ""}, "gpu_3", "This field is required."),
    ],
)
def test_what_is_no_division_is_refused_by_field(
    as_admin: Client, node: Node, given: dict[str, Any], field: str, message: str
) -> None:
    found = refused(as_admin, HERE, **filled(as_admin, HERE) | given)
    assert list(found) == [field]
    assert message in found[field][0]


def test_a_gpu_in_use_is_left_as_it_is_and_says_by_whom(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    job = cast.job(alice, project, state=State.RUNNING)
    cast.run(job, node, 1)
    assert f"In use by job {job.pk}: it stays as it is." in as_admin.get(HERE).text
    given = filled(as_admin, HERE, sharing="mps", gpu_0="2")
    found = refused(as_admin, HERE, **given | {"gpu_1": "2"})
    assert list(found) == ["gpu_1"]
    assert found["gpu_1"] == [
        f"gpu-1 GPU 1 is in use by job {job.pk}; drain gpu-1, and wait until it is free."
    ]
    assert shards(node) == [0, 0, 0, 0], "not the one that is free, either"
    shown = preview(as_admin, HERE, **given)
    assert "This running job on GPUs of this node goes on as it is." in shown.text
    assert [hit.job for hit in shown.context["staying"]] == [job]
    save(as_admin, HERE, **given)
    assert shards(node) == [2, 0, 0, 0]


def test_a_preview_tells_who_would_start(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    Gpu.objects.filter(node=node, index__gt=0).delete()
    asked = {"name": "part", "resources": {"gpus_per_node": 0, "shards": 1}}
    part = cast.job(alice, project, gpus=0, name="part", spec=asked)
    shown = preview(as_admin, HERE, **filled(as_admin, HERE, sharing="mps", gpu_0="2"))
    assert [hit.job for hit in shown.context["preview"].planned.starting.hits] == [part]
    assert "This waiting job would start now." in shown.text


def test_mig_instances_are_shown_as_found(as_admin: Client, node: Node) -> None:
    instance = {"mig_mode": True, "model": "NVIDIA A100-SXM4-80GB MIG 1g.10gb"}
    Gpu.objects.filter(node=node, index=3).update(**instance)
    page = as_admin.get(HERE)
    assert "MIG 1g.10gb" in page.text
    assert 'name="sharing"' in page.text
    assert "gpu_3" not in page.context["form"].fields
    assert "1 MIG instance" in as_admin.get("/settings/").text


def test_a_node_of_instances_alone_has_nothing_to_set(as_admin: Client, node: Node) -> None:
    Gpu.objects.filter(node=node).update(mig_mode=True)
    page = as_admin.get(HERE).text
    assert "As found on the node" in page
    assert 'name="sharing"' not in page
