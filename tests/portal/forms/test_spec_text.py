"""A specification in words and back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.directives import build_spec, formats
from jobs.spec import Array, Dependency, DependencyKind, JobSpec, Resources
from jobs.spec_json import to_dict
from portal.forms import spec_text

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (Resources(), "1 node with 1 CPU"),
        (Resources(gpus_per_node=2, cpus_per_task=8), "1 node with 2 GPUs, 8 CPUs"),
        (
            Resources(nodes=2, gpus_per_node=4, gpu_model="a100", memory_mib=65536),
            "2 nodes with 4 a100 GPUs, 1 CPU, 64 GiB each",
        ),
        (Resources(exclusive=True), "1 node alone with 1 CPU"),
        (Resources(shards=1), "1 node with 1 part of a GPU, 1 CPU"),
        (
            Resources(nodes=2, shards=3, gpu_model="a100", cpus_per_task=2),
            "2 nodes with 3 parts of a GPU (a100), 2 CPUs each",
        ),
    ],
)
def test_what_is_asked_for(resources: Resources, words: str):
    assert spec_text.asks_for(resources) == words


@given(st.sets(st.integers(0, 60), min_size=1), st.none() | st.integers(1, 9))
def test_indices_can_be_read_again(indices: set[int], limit: int | None):
    array = Array(tuple(sorted(indices)), limit)
    assert formats.array(spec_text.indices(array)) == array


@given(st.integers(1, 10_000_000))
def test_a_walltime_can_be_read_again(seconds: int):
    assert formats.walltime(spec_text.clock(seconds)) == seconds


def test_dependencies_can_be_read_again():
    waits = (Dependency(DependencyKind.AFTER_OK, 17), Dependency(DependencyKind.SINGLETON))
    assert formats.dependencies(spec_text.waits(waits)) == waits


@pytest.mark.parametrize("asked", [{}, {"gpus_per_node": "0", "shards": "3"}])
def test_the_forms_fields_make_the_same_job_again(asked: dict[str, str]):
    fields = {
        "name": "train", "project": "vision", "partition": "gpu", "nodes": "2",
        "gpus_per_node": "4", "gpu_model": "a100", "tasks_per_node": "4", "cpus_per_task": "8",
        "memory": "64G", "walltime": "2-12", "workdir": "~/runs", "environment": "A=1\nB=x y=z",
        "array": "0-9%2", "band": "production", "max_switches": "1", "shards": "0",
    } | asked  # fmt: skip
    first = build_spec("#!/bin/sh\n", fields, NOW).spec
    again = build_spec("#!/bin/sh\n", spec_text.form_values(first), NOW).spec
    assert again == first


@pytest.mark.parametrize(
    ("limit", "words"), [(None, "index 6"), (4, "index 6; 4 of the array at once")]
)
def test_a_task_is_shown_as_one(limit: int | None, words: str):
    spec = JobSpec(name="train", script="#!/bin/sh\n", array=Array((6,), limit))
    assert dict(spec_text.settings_shown(spec))["Array"] == words


def test_what_a_row_keeps_can_be_read():
    spec = JobSpec(name="train", script="#!/bin/sh\n", workdir="/data")
    kept = to_dict(spec)
    del kept["script"]
    assert spec_text.stored(kept) == spec
    assert dict(spec_text.settings_shown(spec)) == {"Directory": "/data"}


@pytest.mark.parametrize(("requeue", "words"), [(True, "yes"), (False, "never"), (None, None)])
def test_what_was_set_beyond_the_usual_is_shown(requeue: bool | None, words: str | None):
    spec = JobSpec(
        name="train", script="#!/bin/sh\n", workdir="/data", band=Band.BEST_EFFORT, nice=-5,
        requeue=requeue, resources=Resources(nodes=4, max_switches=2),
    )  # fmt: skip
    shown = dict(spec_text.settings_shown(spec))
    assert (shown.get("Requeue"), shown["Nice"]) == (words, "-5")
    assert (shown["Band"], shown["Switches"]) == ("best-effort", "2 at most")
