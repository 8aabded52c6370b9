"""`manage.py nodes set`: features and switches from a script."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from portal.models import Event, Node
from tests.portal import cast

pytestmark = pytest.mark.django_db


def nodes(*words: str) -> str:
    told = io.StringIO()
    call_command("nodes", *words, stdout=told)
    return told.getvalue()


def test_several_at_once_and_listed(node: Node) -> None:
    cast.node("gpu-2")
    told = nodes("set", "gpu-1", "gpu-2", "--features", "ib,nvme", "--switches", "leaf1,spine")
    assert told == "".join(
        f"{name}: features ib, nvme; switches leaf1, spine\n" for name in ("gpu-1", "gpu-2")
    )
    assert nodes("set", "gpu-2", "--features", "") == (
        "gpu-2: features none; switches leaf1, spine\n"
    )
    listed = {one["name"]: one for one in json.loads(nodes("list", "--json"))}
    assert (listed["gpu-1"]["features"], listed["gpu-1"]["switches"]) == (
        ["ib", "nvme"],
        ["leaf1", "spine"],
    )
    assert (listed["gpu-2"]["features"], listed["gpu-2"]["switches"]) == ([], ["leaf1", "spine"])
    assert nodes("set", "gpu-2", "--switches", "leaf1,spine").endswith(", as it was\n")
    assert Event.objects.filter(kind="node set", actor=None).count() == 3


def test_what_must_be_so_there(node: Node) -> None:
    told = nodes("set", "gpu-1", "--mounts", "/home,/data", "--check-program", "/bin/check")
    assert told == (
        "gpu-1: features none; switches none; mounts /home, /data; check /bin/check; "
        "guards its GPUs: no\n"
    )
    assert nodes("set", "gpu-1", "--mounts", "").endswith(
        "mounts none; check /bin/check; guards its GPUs: no\n"
    )
    assert nodes("set", "gpu-1", "--mounts", "").endswith(", as it was\n")
    assert nodes("set", "gpu-1", "--guard-gpus", "yes").endswith("guards its GPUs: yes\n")
    assert Event.objects.filter(kind="checks set", actor=None).count() == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpu-1"], "say --features, --switches, --mounts, --check-program or --guard-gpus"),
        (["gpu-9", "--features", "a"], "there is no node 'gpu-9'; there is: gpu-1, gpu-2"),
        (["gpu-1", "--features", "a&b"], "--features: 'a&b' is not a name"),
        (["gpu-1", "--features", "a", "--mounts", "home"], "--mounts: 'home' is not a path"),
        (["gpu-1", "--check-program", "check"], "--check-program: 'check' is not a path"),
        (["gpu-1", "--switches", "a,a"], "--switches: a cannot be above itself"),
        (["gpu-1", "--switches", "leaf1,spine"], "gpu-2 says leaf2, spine, core"),
    ],
)
def test_what_is_refused_changes_nothing(node: Node, words: list[str], message: str) -> None:
    cast.node("gpu-2", switches=["leaf2", "spine", "core"])
    with pytest.raises(CommandError) as refused:
        nodes("set", *words)
    assert message in str(refused.value)
    node.refresh_from_db()
    assert (node.features, node.switches) == ([], [])
    assert not Event.objects.exists()
