"""What a job sees."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.directives.hardware import hosts
from jobs.environment import Attempt, GpuShare, NodePart, expand, node_list, of_node, of_tasks
from jobs.rules import is_set_by_carrel
from jobs.spec import JobSpec, Resources

ALONE = Attempt(
    job_id=17,
    spec=JobSpec("train", "#!/bin/sh\n"),
    nodes=(NodePart("n1"),),
    account="ada",
    project="vision",
    partition="gpu",
    master_addr="n1",
    master_port=29_500,
    ends_by=datetime(2026, 11, 21, 13, tzinfo=UTC),
    checkpoint_dir="/home/ada/ckpt/17",
)
GANG = replace(
    ALONE,
    spec=JobSpec(
        "a/b: c",
        "#!/bin/sh\n",
        Resources(nodes=3, gpus_per_node=2, tasks_per_node=2, cpus_per_task=4, memory_mib=2048),
        workdir="/data/run",
        environment=(("LR", "0.1"), ("TEXT", "two\nlines")),
    ),
    nodes=(
        NodePart("n9", ("GPU-a", "GPU-b"), (0, 1), 8),
        NodePart("n10", ("GPU-c", "GPU-d"), (2, 5), 8),
        NodePart("fat", ("MIG-e", "MIG-f"), (0, 3), 64),
    ),
    master_addr="10.0.0.9",
    checkpoint_interval_s=1800,
    restarts=2,
    resume_from="/home/ada/ckpt/17/step-300",
    array_id=15,
    array_index=4,
    array_indices=(1, 4, 8),
)


def test_a_job_of_one_task_without_gpus_sees_none() -> None:
    assert of_node(ALONE, 0) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "1",
        "CARREL_JOB_ID": "17",
        "CARREL_CHECKPOINT_DIR": "/home/ada/ckpt/17",
        "SLURM_JOB_ID": "17",
        "SLURM_JOBID": "17",
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_USER": "ada",
        "SLURM_JOB_ACCOUNT": "vision",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_NODELIST": "n1",
        "SLURM_NODELIST": "n1",
        "SLURM_NNODES": "1",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NTASKS": "1",
        "SLURM_NPROCS": "1",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_TASKS_PER_NODE": "1",
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_JOB_CPUS_PER_NODE": "1",
        "SLURM_RESTART_COUNT": "0",
        "SLURM_JOB_END_TIME": "1795266000",
        "SLURM_NODEID": "0",
        "SLURMD_NODENAME": "n1",
        "SLURM_CPUS_ON_NODE": "1",
        "SLURM_GPUS_ON_NODE": "0",
    }
    assert of_tasks(ALONE, 0) == (
        {"RANK": "0", "LOCAL_RANK": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
    )


def test_a_gang_sees_its_own_gpus_and_where_it_belongs() -> None:
    seen = of_node(GANG, 1)
    expected = {
        "CUDA_VISIBLE_DEVICES": "GPU-c,GPU-d",
        "LR": "0.1",
        "TEXT": "two\nlines",
        "MASTER_ADDR": "10.0.0.9",
        "WORLD_SIZE": "6",
        "SLURM_NTASKS": "6",
        "SLURM_NNODES": "3",
        "SLURM_NODEID": "1",
        "SLURM_JOB_NODELIST": "n[9-10],fat",
        "SLURM_TASKS_PER_NODE": "2(x3)",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2),64",
        "SLURM_CPUS_PER_TASK": "4",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_MEM_PER_NODE": "2048",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_ACCOUNT": "vision",
        "SLURM_JOB_GPUS": "2,5",
        "SLURM_RESTART_COUNT": "2",
        "SLURM_ARRAY_JOB_ID": "15",
        "SLURM_ARRAY_TASK_ID": "4",
        "SLURM_ARRAY_TASK_COUNT": "3",
        "SLURM_ARRAY_TASK_MIN": "1",
        "SLURM_ARRAY_TASK_MAX": "8",
        "CARREL_RESUME_FROM": "/home/ada/ckpt/17/step-300",
        "CARREL_CHECKPOINT_INTERVAL": "1800",
    }
    assert {name: seen[name] for name in expected} == expected
    assert of_node(GANG, 2)["CUDA_VISIBLE_DEVICES"] == "MIG-e,MIG-f"
    assert "PYTHONUNBUFFERED" not in seen


def test_who_shares_a_gpu_is_told_its_part_of_it() -> None:
    share = GpuShare(shards=3, of=8, memory_mib=81_559)
    part = NodePart("n1", ("GPU-a",), (3,), 1, share)
    seen = of_node(replace(ALONE, nodes=(part,)), 0)
    assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert seen["SLURM_SHARDS_ON_NODE"] == "3"
    assert seen["CARREL_GPU_SHARE"] == "3/8"
    assert seen["CARREL_GPU_MEMORY_MIB"] == "30584"
    assert not [name for name in seen if name.startswith("CUDA_MPS")]
    # The service keeps it to its part: of the only GPU it sees, which it calls 0.
    by_mps = replace(part, share=replace(share, mps=True))
    told = of_node(replace(ALONE, nodes=(by_mps,)), 0)
    assert told.keys() - seen.keys() == {
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    }  # fmt: skip
    assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=30584M"
    assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "37.5"
    assert all(map(is_set_by_carrel, told))


def test_ranks_number_all_tasks_once() -> None:
    tasks = [task for rank in range(3) for task in of_tasks(GANG, rank)]
    assert [task["RANK"] for task in tasks] == list("012345")
    assert [task["SLURM_PROCID"] for task in tasks] == list("012345")
    assert [task["LOCAL_RANK"] for task in tasks] == list("010101")


def test_whatever_is_set_is_also_refused_to_people() -> None:
    given_by_person = {name for name, _ in GANG.spec.environment}
    for name in (of_node(GANG, 0) | of_tasks(GANG, 0)[0]).keys() - given_by_person:
        assert is_set_by_carrel(name), name


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["n1"], "n1"),
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n8", "n10", "n9"], "n[8,10,9]"),
        (["a1", "b1", "b2", "c"], "a1,b[1-2],c"),
        (["gpu1.lab", "gpu2.lab"], "gpu1.lab,gpu2.lab"),
    ],
)
def test_node_lists_are_slurms(names: list[str], short: str) -> None:
    assert node_list(names) == short


@settings(max_examples=80, deadline=None)
@given(st.lists(st.from_regex(r"[a-c-]{0,2}[0-9]{0,3}[a-c]?", fullmatch=True), unique=True))
def test_a_node_list_read_back_is_the_same(names: list[str]) -> None:
    names = [name for name in names if name]
    assert list(hosts(node_list(names))) == names if names else node_list(names) == ""


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("slurm-%j.out", "slurm-17.out"),
        ("%A_%a", "15_4"),
        ("%4A_%03a", "0015_004"),
        ("/logs/%x/%u", "/logs/a_b: c/ada"),
        ("%N-%n-%t", "n10-1-2"),
        ("100%%j", "100%j"),
        ("plain", "plain"),
    ],
)
def test_file_name_patterns(pattern: str, name: str) -> None:
    assert expand(pattern, GANG, 1) == name


@pytest.mark.parametrize(("name", "part"), [("..", "__"), ("../../etc", ".._.._etc"), ("%j", "%j")])
def test_a_name_in_a_pattern_stays_one_name(name: str, part: str) -> None:
    attempt = replace(ALONE, spec=replace(ALONE.spec, name=name))
    assert expand("/logs/%x", attempt, 0) == f"/logs/{part}"
    assert expand("%A_%a", attempt, 0) == "17_0"
