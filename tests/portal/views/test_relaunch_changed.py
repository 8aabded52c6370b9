"""What a job's script asks for and the job itself does not, told where the script is shown: a
relaunch asks for it again."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from portal.models import Job

SCRIPT = """#!/bin/bash
#SBATCH --gpus-per-node=a100:1 --exclusive --constraint=infiniband --mem=64G --nodes=2 --switches=1
#SBATCH --nodelist=n1,n2 --exclude=n3 --dependency=afterok:5,afterany:6
#SBATCH --begin=2031-02-01T10:00:00 --deadline=2031-02-03T10:00:00
true
"""
RESOURCES = {
    "gpu_model": "a100", "exclusive": True, "features": ["infiniband"], "memory_mib": 65_536,
    "max_switches": 1, "only_nodes": ["n1", "n2"], "not_nodes": ["n3"],
}  # fmt: skip
WAITS = [{"kind": "afterok", "job_id": 5}, {"kind": "afterany", "job_id": 6}]
OTHERS = {
    "dependencies": WAITS, "begin_at": "2031-02-01T10:00:00+00:00",
    "deadline_at": "2031-02-03T10:00:00+00:00",
}  # fmt: skip
GONE: list[tuple[set[str], dict[str, Any], str]] = [
    (
        {"gpu_model", "features", "exclusive"}, {},
        "GPU model a100, whole nodes, features: infiniband",
    ),
    ({"memory_mib"}, {}, "memory 64 GiB"),
    ({"max_switches"}, {}, "switches: 1 at most"),
    ({"only_nodes"}, {}, "only nodes n1, n2"),
    ({"not_nodes"}, {}, "none of n3"),
    (set(), {"dependencies": WAITS[1:]}, "dependency afterok:5"),
    (set(), {"begin_at": None}, "begin 2031-02-01 10:00 UTC"),
    (set(), {"deadline_at": None}, "deadline 2031-02-03 10:00 UTC"),
]  # fmt: skip


@pytest.fixture
def job(waiting: Job) -> Job:
    """It was submitted with this script, and asks for all that it says."""
    waiting.script.text = SCRIPT
    waiting.script.save()
    resources = RESOURCES | {"gpus_per_node": 1, "nodes": 2}
    waiting.spec = {"name": "train", "resources": resources} | OTHERS
    waiting.save()
    return waiting


def pages(client: Client, job: Job) -> list[str]:
    found = [client.get(f"/jobs/{job.pk}/{more}") for more in ("", "relaunch/")]
    assert [response.status_code for response in found] == [200, 200]
    return [" ".join(response.text.split()) for response in found]


def test_where_it_asks_for_what_its_script_says_nothing_is_told(as_alice: Client, job: Job):
    for shown in pages(as_alice, job):
        assert "The script also asks for" not in shown


@pytest.mark.parametrize(("removed", "changed", "told"), GONE)
def test_what_a_relaunch_would_ask_for_again_is_told(
    as_alice: Client, job: Job, removed: set[str], changed: dict[str, Any], told: str
):
    for name in removed:
        del job.spec["resources"][name]
    job.spec |= changed
    job.save()
    of_job, of_relaunch = pages(as_alice, job)
    assert f"The script also asks for {told}; the job does not." in of_job
    assert f"The script also asks for {told}; job {job.pk} does not. Take that out" in of_relaunch
