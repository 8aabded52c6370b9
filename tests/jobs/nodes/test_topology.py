"""NVLink domains, from matrices as machines in the world print them."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from jobs.nodes.topology import nvlink_domains

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


def matrix(
    rows: str, others: str = "", tail: str = "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"
) -> str:
    """The text around the cells; `rows` has those of each GPU, then those of network cards."""
    cells = [line.split() for line in rows.strip().splitlines()]
    names = [f"GPU{index}" for index in range(len(cells) - len(others.split()))] + others.split()
    head = "\t" + "\t".join([*names, tail])
    lines = [
        "\t".join(
            [name, *(f" {cell} " if cell == "X" else cell for cell in row), "0-63", "0", "N/A"]
        )
        for name, row in zip(names, cells, strict=True)
    ]
    return "\n".join([head, *lines, LEGEND])


DGX_A100 = matrix(
    "\n".join(
        " ".join(["X" if row == column else "NV12" for column in range(8)] + ["PXB", "SYS"])
        for row in range(8)
    )
    + "\nPXB PXB SYS SYS SYS SYS SYS SYS X SYS\nSYS SYS SYS SYS SYS SYS SYS SYS SYS X",
    "NIC0 NIC1",
)
"""All to all through NVSwitch, and network cards: https://github.com/NVIDIA/nccl/issues/1505."""

BRIDGED_PAIRS = matrix("""
    X    PHB  NV4  NODE
    PHB  X    NODE NV4
    NV4  NODE X    PHB
    NODE NV4  PHB  X
""")
"""Four RTX 3090 in two pairs with a bridge each, which are not neighbours by number:
https://github.com/aikitoria/open-gpu-kernel-modules/pull/18."""

PCIE = matrix("""
    X   PHB
    PHB X
""")
"""Two RTX 5090, which have no NVLink: https://github.com/noonghunna/club-3090/issues/1229."""

CUBE_MESH = matrix("""
    X   NV1 NV1 NV2 NV2 SYS SYS SYS
    NV1 X   NV2 NV1 SYS NV2 SYS SYS
    NV1 NV2 X   NV2 SYS SYS NV1 SYS
    NV2 NV1 NV2 X   SYS SYS SYS NV1
    NV2 SYS SYS SYS X   NV1 NV1 NV2
    SYS NV2 SYS SYS NV1 X   NV2 NV1
    SYS SYS NV1 SYS NV1 NV2 X   NV2
    SYS SYS SYS NV1 NV2 NV1 NV2 X
""")
"""Eight V100 as in a DGX-1: not each with each, but all through one another."""


@pytest.mark.parametrize(
    ("text", "domains"),
    [
        (DGX_A100, [0] * 8),
        (BRIDGED_PAIRS, [0, 1, 0, 1]),
        (PCIE, [0, 1]),
        (CUBE_MESH, [0] * 8),
        (matrix("X"), [0]),
    ],
)
def test_domains(text: str, domains: list[int]) -> None:
    assert nvlink_domains(text) == dict(enumerate(domains))
    assert nvlink_domains(text.expandtabs()) == dict(enumerate(domains))


@pytest.mark.parametrize(
    "text",
    ["", "Failed to initialize NVML: Unknown Error", "No devices were found", LEGEND, "GPU0"],
)
def test_what_is_no_matrix_tells_nothing(text: str) -> None:
    assert nvlink_domains(text) == {}


def test_a_matrix_that_was_cut_off_tells_of_the_rows_there_are() -> None:
    cut = "\n".join(BRIDGED_PAIRS.splitlines()[:4])
    assert nvlink_domains(cut) == {0: 0, 1: 1, 2: 0}


def test_a_chain_is_one_domain_from_whichever_end() -> None:
    chain = [5, 2, 7, 0, 3]
    random.Random(3).shuffle(chain)
    links = {frozenset(pair) for pair in pairwise(chain)}
    rows = "\n".join(
        " ".join(
            "X" if row == column else "NV2" if {row, column} in links else "SYS"
            for column in range(8)
        )
        for row in range(8)
    )
    found = nvlink_domains(matrix(rows))
    assert {found[index] for index in chain} == {0}
    assert [found[index] for index in (1, 4, 6)] == [1, 2, 3]
