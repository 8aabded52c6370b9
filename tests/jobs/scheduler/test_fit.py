"""What can never run, and the largest that could."""

from __future__ import annotations

import pytest

from jobs.scheduler.fit import is_model, name_key, refuse
from jobs.spec import Resources
from tests.jobs.scheduler.clusters import H100, node

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
