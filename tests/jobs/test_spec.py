"""A specification that exists is valid, says what is wrong otherwise, and survives JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.rules import MAX_SCRIPT_BYTES, MAX_VARIABLE_BYTES
from jobs.spec import (
    Array,
    Dependency,
    DependencyKind,
    JobSpec,
    Keep,
    Resources,
    SpecError,
    WarningSignal,
)
from jobs.spec_json import from_dict, to_dict

SCRIPT = "#!/bin/sh\n"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"nodes": 0}, "nodes"),
        ({"nodes": True}, "nodes"),
        ({"nodes": 2.0}, "nodes"),
        ({"nodes": 5000}, "nodes"),
        ({"gpus_per_node": -1}, "gpus_per_node"),
        ({"gpus_per_node": 257}, "gpus_per_node"),
        ({"tasks_per_node": 0}, "tasks_per_node"),
        ({"cpus_per_task": 0}, "cpus_per_task"),
        ({"memory_mib": 0}, "memory"),
        ({"memory_mib": 2**40}, "memory"),
        ({"gpu_model": ""}, "gpu_model"),
        ({"gpu_model": "a100\nb"}, "gpu_model"),
        ({"features": ("$(x)",)}, "features"),
        ({"only_nodes": ("n1", "n1")}, "only_nodes"),
        ({"only_nodes": ("n1",), "nodes": 2}, "nodes"),
        ({"not_nodes": ("-x",)}, "not_nodes"),
        ({"shards": -1}, "shards"),
        ({"shards": 1001}, "shards"),
        ({"shards": 1, "gpus_per_node": 1}, "shards"),
        ({"max_switches": 0}, "switches"),
        ({"max_switches": 4097}, "switches"),
    ],
)
def test_resources_that_make_no_sense(values: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        Resources(**values)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"name": ""}, "name", "empty"),
        ({"name": " "}, "name", "empty"),
        ({"name": "\ufeff\u200b "}, "name", "empty"),
        ({"name": "a\nb"}, "name", "one line"),
        ({"name": "a\x1b[31m"}, "name", "control"),
        ({"name": "a\u202eb"}, "name", "control"),
        ({"name": "a\u2028b"}, "name", "one line"),
        ({"name": "\ud800"}, "name", "control"),
        ({"name": "x" * 201}, "name", "at most 200"),
        ({"script": ""}, "script", "empty"),
        ({"script": "#!\nx"}, "script", "interpreter"),
        ({"script": SCRIPT + "\0"}, "script", "NUL"),
        ({"script": SCRIPT + "\udc80"}, "script", "UTF-8"),
        ({"script": "#!/bin/sh\r\nx\r\n"}, "script", "CRLF"),
        ({"script": SCRIPT + "x" * MAX_SCRIPT_BYTES}, "script", "at most 1,000,000"),
        ({"script": SCRIPT + "é" * (MAX_SCRIPT_BYTES // 2)}, "script", "at most"),
        ({"walltime_s": 0}, "walltime", "from 1"),
        ({"walltime_s": 400 * 86_400}, "walltime", "to 31,622,400"),
        ({"project": ""}, "project", "blank"),
        ({"partition": "a\tb"}, "partition", "one line"),
        ({"workdir": "runs"}, "workdir", "start with /"),
        ({"workdir": "~other/x"}, "workdir", "start with /"),
        ({"workdir": "/a\nb"}, "workdir", "one line"),
        ({"environment": (("1A", "x"),)}, "environment", "variable's name"),
        ({"environment": (("A B", "x"),)}, "environment", "variable's name"),
        ({"environment": (("A", "\0"),)}, "environment", "NUL"),
        ({"environment": (("A", "x"), ("A", "y"))}, "environment", "twice"),
        ({"environment": (("A", "x" * MAX_VARIABLE_BYTES),)}, "environment", "128 KiB"),
        ({"environment": tuple((f"V{n}", "x" * 10_000) for n in range(101))}, "environment", "all"),
        ({"environment": (("CUDA_VISIBLE_DEVICES", "0"),)}, "environment", "set by Carrel"),
        ({"environment": (("SLURM_JOB_ID", "0"),)}, "environment", "set by Carrel"),
        ({"environment": (("CARREL_ANYTHING", "0"),)}, "environment", "set by Carrel"),
        ({"environment": (("MASTER_PORT", "0"),)}, "environment", "set by Carrel"),
        ({"begin_at": datetime(2026, 1, 1)}, "begin", "time zone"),
        ({"begin_at": NOON, "deadline_at": NOON + timedelta(minutes=59)}, "deadline", "room"),
        ({"stdout": ""}, "stdout", "name a file"),
        ({"stdout": "a-%j-%q"}, "stdout", "'%q' is not known"),
        ({"stderr": "a%"}, "stderr", "not known"),
        ({"stderr": "a\nb"}, "stderr", "one line"),
        ({"nice": 1001}, "nice", "from -1,000 to 1,000"),
        ({"nice": -1001}, "nice", "from -1,000 to 1,000"),
        ({"nice": True}, "nice", "whole number"),
        ({"dependencies": (Dependency(DependencyKind.AFTER_OK, 1),) * 1001}, "dependency", "1,000"),
    ],
)
def test_requests_that_make_no_sense(values: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        JobSpec(**({"name": "x", "script": SCRIPT} | values))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "values",
    [
        {"name": "Обучение 🧪 λ=0.1 $(rm -rf ~) \"'`"},
        {"name": "実験　一"},
        {"name": "👩‍🔬"},
        {"script": "python train.py"},
        {"script": "#!/usr/bin/env python3\nprint('\r')\n"},
        {"script": SCRIPT + "x" * (MAX_SCRIPT_BYTES - len(SCRIPT))},
        {"workdir": "~"},
        {"workdir": "~/a b/$(c)"},
        {"environment": (("A", "line\nbreak \"quoted\" 'too' $(x)"), ("_b", ""))},
        {"environment": (("SLURMISH", "1"), ("CUDA_LAUNCH_BLOCKING", "1"))},
        {"stdout": "~/logs/%x-%4A_%a.%j.%N.%n.%t.%u.100%%"},
        {"nice": -1000, "band": Band.MONITORING, "requeue": False},
        {"deadline_at": NOON, "begin_at": NOON - timedelta(hours=1)},
    ],
)
def test_requests_that_are_fine(values: dict[str, Any]) -> None:
    JobSpec(**({"name": "x", "script": SCRIPT} | values))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Array(()),
        lambda: Array((1, 1)),
        lambda: Array((2, 1)),
        lambda: Array((-1,)),
        lambda: Array(tuple(range(10_001))),
        lambda: Array((1,), 0),
        lambda: Dependency(DependencyKind.AFTER_OK),
        lambda: Dependency(DependencyKind.AFTER_OK, 0),
        lambda: Dependency(DependencyKind.SINGLETON, 1),
        lambda: WarningSignal(0, 10),
        lambda: WarningSignal(10, -1),
    ],
)
def test_parts_that_make_no_sense(make: Any) -> None:
    with pytest.raises(SpecError):
        make()


words = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
times = st.datetimes(
    datetime(2026, 1, 1),
    datetime(2027, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
specs = st.builds(
    JobSpec,
    name=st.text(st.characters(codec="utf-8", categories=["L", "N", "S", "P"]), min_size=1)
    .map(lambda text: text[:200])
    .filter(str.strip),
    script=st.text(st.characters(codec="utf-8", exclude_characters="\0\r")).map(SCRIPT.__add__),
    resources=st.builds(Resources, shards=st.integers(0, 1000))
    | st.builds(
        Resources,
        nodes=st.integers(1, 2),
        gpus_per_node=st.integers(0, 8),
        gpu_model=st.none() | words,
        memory_mib=st.none() | st.integers(1, 10**6),
        exclusive=st.booleans(),
        features=st.lists(words).map(tuple),
        max_switches=st.none() | st.integers(1, 4096),
        only_nodes=st.just(()) | st.lists(words, min_size=2, unique=True).map(tuple),
    ),
    walltime_s=st.integers(1, 10**6),
    project=st.none() | words,
    environment=st.dictionaries(
        words, st.text(st.characters(codec="utf-8", exclude_characters="\0"))
    ).map(lambda found: tuple(found.items())),
    array=st.none()
    | st.builds(
        Array,
        st.sets(st.integers(0, 4_000_000), min_size=1).map(sorted).map(tuple),
        st.none() | st.integers(1, 9),
    ),
    dependencies=st.lists(
        st.builds(
            Dependency,
            st.sampled_from([DependencyKind.AFTER_OK, DependencyKind.AFTER_NOT_OK]),
            st.integers(1, 2**40),
        )
        | st.just(Dependency(DependencyKind.SINGLETON))
    ).map(tuple),
    begin_at=st.none() | times,
    deadline_at=st.none() | times.map(lambda moment: moment + timedelta(days=800)),
    held=st.booleans(),
    stdout=st.none() | st.just("%x-%j.out"),
    band=st.none() | st.sampled_from(Band),
    nice=st.integers(-1000, 1000),
    keep_checkpoints=st.sampled_from([None, Keep(1), Keep(3, 1000)]),
    requeue=st.sampled_from([None, True, False]),
    warning=st.none() | st.builds(WarningSignal, st.integers(1, 64), st.integers(0, 65_535)),
)


@settings(max_examples=60, deadline=None)
@given(specs)
def test_json_loses_nothing(spec: JobSpec) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(spec)))) == spec


def test_what_an_older_version_stored_gets_the_defaults() -> None:
    assert from_dict({"name": "x", "script": SCRIPT}) == JobSpec("x", SCRIPT)
    kept = from_dict({"name": "x", "script": SCRIPT, "resources": {"nodes": 2}})
    assert kept.resources == Resources(nodes=2)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"name": "x", "script": SCRIPT, "colour": 1}, "colour"),
        ({"name": "x", "script": SCRIPT, "resources": {"colour": 1}}, "colour"),
        ({"script": SCRIPT}, "specification"),
        ({"name": "x", "script": SCRIPT, "resources": 7}, "specification"),
        ({"name": "x", "script": SCRIPT, "array": []}, "specification"),
        ({"name": "x", "script": SCRIPT, "dependencies": [{"kind": "x"}]}, "specification"),
        ({"name": "x", "script": SCRIPT, "begin_at": "soon"}, "specification"),
        ({"name": "x", "script": SCRIPT, "band": "high"}, "specification"),
        ({"name": "x", "script": 7}, "specification"),
        ({"name": "x", "script": SCRIPT, "walltime_s": 0}, "walltime"),
    ],
)
def test_what_is_no_specification_is_refused(data: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        from_dict(data)
    assert caught.value.field == field
