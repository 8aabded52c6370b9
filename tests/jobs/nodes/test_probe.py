"""GPUs as jobs can have them: MIG instances in place of their card, NVLink domains numbered."""

from __future__ import annotations

import pytest

from jobs.nodes.probe import GpuFacts, MigInstance, NodeFacts, offered

MODEL = "NVIDIA A100-SXM4-80GB"
TOPOLOGY = """\tGPU0\tGPU1\tGPU2
GPU0\t X \tNV12\tNV12
GPU1\tNV12\t X \tNV12
GPU2\tNV12\tNV12\t X
"""


def card(index: int, *mig: MigInstance, mig_mode: bool | None = False) -> GpuFacts:
    return GpuFacts(index, f"GPU-{index}", MODEL, 81_920, f"00000000:0{index}:00.0", mig_mode, mig)


def machine(*gpus: GpuFacts, topology: str | None = TOPOLOGY) -> NodeFacts:
    return NodeFacts(
        hostname="n", python="3.11", cpus=8, memory_mib=1024, os="Linux", kernel="6", user="u",
        home="/", boot_id="b", topology=topology, gpus=gpus, problems=("before",),
    )  # fmt: skip


def test_instances_stand_in_the_place_of_their_card() -> None:
    parts = (MigInstance("3g.40gb", "MIG-a", 40_192), MigInstance("1g.10gb+me", "MIG-b"))
    facts = offered(machine(card(0), card(1, *parts, mig_mode=True), card(2)))
    bus = "00000000:01:00.0"
    assert facts.gpus == (
        GpuFacts(0, "GPU-0", MODEL, 81_920, "00000000:00:00.0", False, domain=0),
        GpuFacts(1, "MIG-a", f"{MODEL} MIG 3g.40gb", 40_192, bus, True, domain=1),
        GpuFacts(1, "MIG-b", f"{MODEL} MIG 1g.10gb+me", 9_536, bus, True, domain=2),
        GpuFacts(2, "GPU-2", MODEL, 81_920, "00000000:02:00.0", False, domain=0),
    )
    assert facts.problems == ("before",)


def test_a_card_in_mig_mode_without_instances_is_not_offered() -> None:
    facts = offered(machine(card(0, mig_mode=True), card(1)))
    assert [gpu.uuid for gpu in facts.gpus] == ["GPU-1"]
    assert facts.problems[0] == "before"
    assert facts.problems[1].startswith("GPU 0 is in MIG mode and has no instances")


@pytest.mark.parametrize("topology", [None, "", "nvidia-smi: command failed"])
def test_without_a_matrix_no_domain_is_known(topology: str | None) -> None:
    facts = offered(machine(card(0), card(1, mig_mode=None), topology=topology))
    assert [gpu.domain for gpu in facts.gpus] == [None, None]


def test_a_profile_without_its_size_has_none() -> None:
    facts = offered(machine(card(0, MigInstance("odd", "MIG-a"))))
    assert [(gpu.uuid, gpu.memory_mib) for gpu in facts.gpus] == [("MIG-a", None)]
