"""What can never run, and the largest that could."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from jobs.scheduler.fit import could_hold, name_key, refuse, usable_models
from jobs.scheduler.gpu_models import is_model
from jobs.scheduler.plan import plan
from jobs.scheduler.snapshot import Gpu, Node, Pending, Snapshot
from jobs.spec import Resources
from tests.jobs.scheduler.clusters import A100, H100, NOW, node
from tests.jobs.scheduler.generated import resources, snapshots
from tests.jobs.scheduler.recount import without

SMALL = f"{A100} MIG 1g.10gb"
LARGE = f"{A100} MIG 3g.40gb"

LAB = [
    node(1, 2),
    node(2, 4, features=("nvlink",), memory_mib=262_144),
    node(3, 0, cpus=128),
    node(4, 8, model=H100, partition="new", unavailable="down"),
]


@pytest.mark.parametrize(
    ("asked", "partition", "refusal"),
    [
        (Resources(gpus_per_node=4), "gpu", None),
        (Resources(nodes=2, gpus_per_node=2), "gpu", None),
        (Resources(gpus_per_node=8), "new", None),
        (Resources(gpus_per_node=8), None, None),
        (
            Resources(gpus_per_node=6),
            "gpu",
            "asks for 6 GPUs on one node; the largest node (n2) has 4",
        ),
        (
            Resources(nodes=2, gpus_per_node=4),
            "gpu",
            "asks for 2 nodes with 4 GPUs each; only 1 node (n2) has that",
        ),
        (Resources(nodes=4), "gpu", "asks for 4 nodes; partition gpu has 3"),
        (
            Resources(cpus_per_task=200),
            "gpu",
            "asks for 200 CPUs on one node; the largest node (n3) has 128",
        ),
        (
            Resources(gpus_per_node=1, cpus_per_task=64),
            "gpu",
            "asks for 64 CPUs on one node; the largest such node (n1) has 32",
        ),
        (
            Resources(memory_mib=524_288),
            "gpu",
            "asks for 512 GiB of memory on one node; the largest node (n2) has 256 GiB",
        ),
        (
            Resources(gpus_per_node=1, gpu_model="h100"),
            "gpu",
            "asks for a GPU of model 'h100'; partition gpu has none, only NVIDIA A100-SXM4-80GB",
        ),
        (
            Resources(features=("ib",)),
            "gpu",
            "asks for ib; no node of partition gpu has that. "
            "There are: nvlink, NVIDIA A100-SXM4-80GB",
        ),
        (
            Resources(only_nodes=("n7",)),
            "gpu",
            "asks for node n7; partition gpu has n1, n2, n3",
        ),
        (
            Resources(nodes=2, not_nodes=("n1", "n2")),
            "gpu",
            "asks for 2 nodes but rules out all except n3",
        ),
        (Resources(), "none", "partition none has no nodes"),
        (
            Resources(gpus_per_node=9),
            None,
            "asks for 9 GPUs on one node; the largest node (n4) has 8",
        ),
    ],
)
def test_refusals_name_the_largest_that_would_fit(
    asked: Resources, partition: str | None, refusal: str | None
) -> None:
    assert refuse(asked, LAB, partition) == refusal
    assert refuse(asked, reversed(LAB), partition) == refusal


@pytest.mark.parametrize(
    ("asked", "model", "same"),
    [
        ("a100", "NVIDIA A100-SXM4-80GB", True),
        ("A100-80GB", "NVIDIA A100-SXM4-80GB", True),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", True),
        ("a10", "NVIDIA A100-SXM4-80GB", False),
        ("a100-40gb", "NVIDIA A100-SXM4-80GB", False),
        ("rtx4090", "NVIDIA GeForce RTX 4090", True),
        ("rtx_4090", "NVIDIA GeForce RTX 4090", True),
        ("4090", "NVIDIA GeForce RTX 4090", True),
        ("rtx409", "NVIDIA GeForce RTX 4090", False),
        ("", "NVIDIA GeForce RTX 4090", False),
        ("a100", SMALL, False),
        ("a100-80gb", SMALL, False),
        (A100, SMALL, False),
        ("1g.10gb", SMALL, True),
        ("mig", SMALL, True),
        ("MIG 1g.10gb", SMALL, True),
        ("mig-1g.10gb", SMALL, True),
        ("a100-1g.10gb", SMALL, True),
        ("a100_1g.10gb", SMALL, True),
        ("1g10gb", SMALL, True),
        (SMALL, SMALL, True),
        ("1g", SMALL, True),
        ("h100-1g.10gb", SMALL, False),
        ("1g.5gb", SMALL, False),
        ("10gb", SMALL, False),
        ("3g.40gb", SMALL, False),
        ("1g.10gb", A100, False),
        ("mig", A100, False),
        ("1g.10gb", f"{A100} MIG 1g.10gb+me", True),
        ("1g.10gb+me", SMALL, False),
        ("3g.40gb", f"{A100} MIG 1c.3g.40gb", False),
        ("1c.3g.40gb", f"{A100} MIG 1c.3g.40gb", True),
        ("1c.3g.40gb", LARGE, False),
    ],
)
def test_models_by_their_short_names(asked: str, model: str, same: bool) -> None:
    assert is_model(asked, model) is same


def test_nodes_are_named_in_the_order_people_count() -> None:
    assert sorted(["n10", "n2", "gpu-b", "n02", "7"], key=name_key) == [
        "7",
        "gpu-b",
        "n2",
        "n02",
        "n10",
    ]


MIXED = replace(
    node(1, features=("nvlink",)),
    gpus=tuple(
        Gpu(f"G{number}", number, model, 81_920)
        for number, model in enumerate([A100, SMALL, SMALL, LARGE])
    ),
)


@pytest.mark.parametrize(
    ("asked", "models"),
    [
        (Resources(gpus_per_node=1), {A100}),
        (Resources(gpus_per_node=1, gpu_model="a100"), {A100}),
        (Resources(gpus_per_node=1, features=("nvlink",)), {A100}),
        (Resources(gpus_per_node=1, features=("a100",)), {A100}),
        (Resources(gpus_per_node=1, gpu_model="mig"), {SMALL, LARGE}),
        (Resources(gpus_per_node=1, features=("mig",)), {SMALL, LARGE}),
        (Resources(gpus_per_node=1, gpu_model="1g.10gb"), {SMALL}),
        (Resources(gpus_per_node=1, gpu_model="1g.10gb", features=("a100", "nvlink")), {SMALL}),
        (Resources(gpus_per_node=1, gpu_model="1g.10gb", features=("h100",)), set()),
    ],
)
def test_mig_instances_are_for_those_who_name_them(asked: Resources, models: set[str]) -> None:
    assert usable_models(MIXED, asked) == models


def test_instances_are_no_whole_gpus() -> None:
    only = node(1, 3, model=SMALL)
    assert could_hold(only, Resources(gpus_per_node=3, gpu_model="1g.10gb"))
    assert refuse(Resources(gpus_per_node=1), [only], "gpu") == (
        f"asks for 1 GPU; partition gpu has {SMALL}; "
        "who wants a MIG instance names it, as in --gres=gpu:1g.10gb:1"
    )
    assert refuse(Resources(gpus_per_node=1, gpu_model="a100"), [only], "gpu") == (
        f"asks for a GPU of model 'a100'; partition gpu has none, only {SMALL}"
    )
    assert refuse(Resources(gpus_per_node=3), [MIXED], "gpu") == (
        "asks for 3 GPUs on one node; the largest node (n1) has 1"
    )
    assert could_hold(only, Resources(features=("a100",)))


def divided(number: int, shards: int) -> Node:
    """A node of two GPUs, of which one is divided."""
    whole = Gpu("A", 0, A100, 81_920)
    return replace(node(number), gpus=(whole, Gpu("B", 1, A100, 81_920, shards=shards)))


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (Resources(shards=4), None),
        (Resources(shards=1, nodes=2), None),
        (Resources(shards=1, gpu_model="a100"), None),
        (
            Resources(shards=5),
            "asks for 5 parts of a GPU on one node; the largest node (n2) has GPUs of 4 parts",
        ),
        (
            Resources(shards=3, nodes=2),
            "asks for 2 nodes with 3 parts of a GPU each; only 1 node (n2) has that",
        ),
        (
            Resources(shards=1, gpu_model="h100"),
            "asks for 1 part of a GPU (h100); no such GPU of partition gpu is divided into parts; "
            f"divided are {A100}",
        ),
        (
            Resources(shards=1, cpus_per_task=64),
            "asks for 64 CPUs on one node; the largest such node (n1) has 32",
        ),
    ],
)
def test_parts_of_a_gpu(asked: Resources, refusal: str | None) -> None:
    nodes = [divided(1, 2), divided(2, 4), node(3, 8), node(4, 8, model=H100)]
    assert refuse(asked, nodes, "gpu") == refusal
    assert refuse(asked, reversed(nodes), "gpu") == refusal


def test_where_no_gpu_is_divided() -> None:
    asked = Resources(shards=1)
    assert refuse(asked, LAB, "gpu") == (
        "asks for 1 part of a GPU; no GPU of partition gpu is divided into parts"
    )
    assert not could_hold(node(1, 8), asked) and could_hold(divided(1, 1), asked)


@given(snapshots(), resources)
def test_refused_means_that_even_an_empty_cluster_would_not_do(
    snapshot: Snapshot, request: Resources
) -> None:
    if request.max_switches is not None:
        return
    empty = without(snapshot, [job.id for job in snapshot.running])
    up = tuple(replace(one, unavailable="") for one in empty.nodes)
    starts = plan(Snapshot(up, (Pending(1, NOW, request, 60, "gpu"),)), NOW).starts
    assert (refuse(request, snapshot.nodes, "gpu") is None) == bool(starts)
