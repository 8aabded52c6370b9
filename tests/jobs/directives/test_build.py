"""A script and a form together; and no input, however odd, that breaks the parser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.directives import SpecErrors, build_spec, check, parse
from jobs.directives.options import OPTIONS
from jobs.spec import Array, Dependency, DependencyKind, JobSpec, Resources

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SCRIPT = """#!/bin/bash
#SBATCH -J train -t 1:00:00 -N 2 -n 4
#SBATCH --gpus=a100:8 --mem-per-cpu=1G -H
#SBATCH --export=LR=0.1,SEED=1
python train.py
"""


def test_a_script_alone() -> None:
    assert build_spec(SCRIPT, {}, NOW).spec == JobSpec(
        name="train",
        script=SCRIPT,
        resources=Resources(
            nodes=2, gpus_per_node=4, gpu_model="a100", tasks_per_node=2, memory_mib=2048
        ),
        walltime_s=3600,
        environment=(("LR", "0.1"), ("SEED", "1")),
        held=True,
    )


def test_the_form_wins_over_each_way_of_saying_it_in_the_script() -> None:
    form = {
        "name": "other name",
        "project": "vision lab",
        "partition": "gpu",
        "nodes": "3",
        "gpus_per_node": "1",
        "gpu_model": "h100",
        "tasks_per_node": "5",
        "cpus_per_task": "2",
        "memory": "7G",
        "walltime": "2-0",
        "workdir": "~/run",
        "environment": 'LR=0.2\r\n\r\nTEXT= "as typed" $(x) = \r\n',
        "array": "0-3%2",
        "dependency": "afterany:17",
        "begin": "2026-11-21T13:30",
        "held": "off",
    }
    assert build_spec(SCRIPT, form, NOW).spec == JobSpec(
        name="other name",
        script=SCRIPT,
        resources=Resources(3, 1, "h100", 5, 2, 7168),
        walltime_s=172_800,
        project="vision lab",
        partition="gpu",
        workdir="~/run",
        environment=(("LR", "0.2"), ("SEED", "1"), ("TEXT", ' "as typed" $(x) = ')),
        array=Array((0, 1, 2, 3), 2),
        dependencies=(Dependency(DependencyKind.AFTER_ANY, 17),),
        begin_at=NOW + timedelta(minutes=90),
        held=False,
    )


@pytest.mark.parametrize(
    ("line", "form", "asked"),
    [
        ("--gpus=4", {"shards": "2"}, Resources(shards=2)),
        ("--gres=shard:2", {"gpus_per_node": "1"}, Resources(gpus_per_node=1)),
        ("--gres=shard:2", {"gpus_per_node": "0"}, Resources()),
        ("--gres=shard:2", {"shards": "0"}, Resources()),
        ("--gres=gpu:2", {"shards": "0"}, Resources(gpus_per_node=2)),
        ("--gres=shard:2", {"gpu_model": "a100"}, Resources(gpu_model="a100", shards=2)),
        ("-N 4 --switches=1", {"max_switches": "2"}, Resources(nodes=4, max_switches=2)),
    ],
)
def test_parts_of_a_gpu_and_whole_ones_take_each_others_place(
    line: str, form: dict[str, str], asked: Resources
) -> None:
    assert build_spec(f"#!/bin/sh\n#SBATCH {line}\n", form, NOW).spec.resources == asked


def test_a_band_of_the_form_wins() -> None:
    script = "#!/bin/sh\n#SBATCH -q batch --nice --requeue\n"
    spec = build_spec(script, {"band": "best-effort"}, NOW).spec
    assert (spec.band, spec.nice, spec.requeue) == (Band.BEST_EFFORT, 100, True)


def test_what_is_empty_was_not_given() -> None:
    empty = dict.fromkeys(("name", "nodes", "memory", "environment", "begin", "held"), "  ")
    assert build_spec(SCRIPT, empty, NOW) == build_spec(SCRIPT, {}, NOW)
    assert build_spec(SCRIPT, {"nodes": None}, NOW) == build_spec(SCRIPT, {}, NOW)


def test_totals_of_the_script_are_spread_over_the_forms_nodes() -> None:
    spec = build_spec(SCRIPT, {"nodes": "4"}, NOW).spec
    assert (spec.resources.gpus_per_node, spec.resources.tasks_per_node) == (2, 1)
    with pytest.raises(SpecErrors) as caught:
        build_spec(SCRIPT, {"nodes": "3"}, NOW)
    assert [(error.field, error.line) for error in caught.value.errors] == [
        ("-n", 2),
        ("--gpus", 3),
    ]


def test_a_command_becomes_a_script_as_typed() -> None:
    command = "cd \"$HOME\" && python train.py --name 'a b' | tee log # $(x)"
    spec = build_spec("", {"command": command}, NOW).spec
    assert spec.script == f"#!/bin/bash\n{command}\n"
    assert spec.name == "cd \"$HOME\" && python train.py --name 'a b' | tee log # $(x)"[:60]
    assert build_spec("", {"command": command, "name": "mine"}, NOW).spec.name == "mine"
    assert build_spec("", {"command": "a\r\nb"}, NOW).spec.script == "#!/bin/bash\na\nb\n"


def test_what_browsers_send_runs_as_it_was_typed() -> None:
    assert build_spec(SCRIPT.replace("\n", "\r\n"), {}, NOW) == build_spec(SCRIPT, {}, NOW)


@pytest.mark.parametrize(
    ("script", "form", "fields"),
    [
        ("", {}, ["script"]),
        (" \n", {"nodes": "x"}, ["script", "nodes"]),
        (SCRIPT, {"command": "x"}, ["command"]),
        ("#!/bin/sh\n\0", {"name": "a\nb"}, ["name", "script"]),
        (SCRIPT, {"name": "x" * 201, "project": "a\x07", "gpu_model": "?"},
         ["name", "project", "gpu_model"]),
        (SCRIPT, {"walltime": "long", "memory": "much", "array": "some", "dependency": "before:1",
                  "begin": "later", "held": "maybe", "workdir": "here", "cpus_per_task": "-1"},
         ["walltime", "memory", "array", "dependency", "begin", "held", "workdir",
          "cpus_per_task"]),
        (SCRIPT, {"nodes": "99999999"}, ["-n", "--gpus", "nodes"]),
        (SCRIPT, {"colour": "red"}, ["colour"]),
        (SCRIPT, {"gpus_per_node": "1", "shards": "2"}, ["shards"]),
        (SCRIPT, {"shards": "-1", "band": "high", "max_switches": "few"},
         ["shards", "band", "max_switches"]),
        (SCRIPT, {"environment": "A=1\nB\n"}, ["environment"]),
        (SCRIPT, {"environment": "A=1\nA=2\n"}, ["environment"]),
        (SCRIPT, {"environment": "export A=1"}, ["environment"]),
    ],
)  # fmt: skip
def test_everything_wrong_is_told_at_once(
    script: str, form: dict[str, str], fields: list[str]
) -> None:
    with pytest.raises(SpecErrors) as caught:
        build_spec(script, form, NOW)
    assert [error.field for error in caught.value.errors] == fields


def test_an_environment_error_names_the_line_of_the_field() -> None:
    errors = check(SCRIPT, {"environment": "A=1\n\nRANK=2"}, NOW).errors
    assert [error.message[:14] for error in errors] == ["line 3: RANK i"]


def test_a_value_that_only_the_whole_can_judge_points_at_its_line() -> None:
    script = "#!/bin/sh\n#SBATCH --deadline=now+1hour -t 2:00:00\n#SBATCH -b now+30minutes\n"
    errors = check(script, {}, NOW).errors
    assert [(error.field, error.line) for error in errors] == [("--deadline", 2)]


def test_defaults_are_said() -> None:
    found = check("python x.py\n", {}, NOW)
    assert found.spec is not None and found.spec.name == "job"
    assert [notice.field for notice in found.warnings] == ["script", "walltime"]
    assert "bash" in str(found.warnings[0]) and "60 minutes" in str(found.warnings[1])


@pytest.mark.parametrize(
    ("line", "form"), [("-t -5", {}), ("--time=-5", {}), ("-N 1", {"walltime": "-5"})]
)
def test_a_wrong_walltime_was_given(line: str, form: dict[str, str]) -> None:
    found = check(f"#!/bin/sh\n#SBATCH {line}\n", form, NOW)
    assert len(found.errors) == 1
    assert not found.warnings


marks = [*"-=#:,[]%@& \\'", '"', "\0", "٣", "\u2028", "\r\n", "\n#SBATCH ", "--"]
parts = ["1-5", "9" * 20, "a100:2", "gpu:", "now+", "B:"]
scrap = st.sampled_from([*OPTIONS, *marks, *parts])
value = st.text(max_size=12) | scrap | st.integers(-5, 10**20).map(str)
line = st.builds(
    lambda option, joint, text: f"#SBATCH {option}{joint}{text}",
    st.sampled_from(sorted(OPTIONS)),
    st.sampled_from(["=", " ", ""]),
    st.lists(value, max_size=4).map("".join),
)
odd_scripts = st.lists(line | st.text(max_size=30), max_size=6).map(
    lambda lines: "\n".join(["#!/bin/sh", *lines])
)
FIELDS = (
    "name nodes gpus_per_node memory walltime environment array dependency begin held command "
    "workdir gpu_model shards max_switches band other"
)
odd_forms = st.dictionaries(
    st.sampled_from(FIELDS.split()),
    value | st.none() | st.integers() | st.booleans(),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(odd_scripts, odd_forms)
@example("#SBATCH --begin=0001-01-01", {})
@example("#SBATCH -w " + "[" * 3000 + "\n" + "#SBATCH --export " + "," * 3000, {})
@example("", {"command": "\u2028"})
def test_whatever_is_typed_is_understood_or_named(script: str, form: dict[str, Any]) -> None:
    found = check(script, form, NOW)
    assert (found.spec is None) == bool(found.errors)
    for error in (*found.errors, *parse(script, now=NOW).errors):
        assert error.field and error.message
        assert error.line is None or 1 <= error.line <= script.count("\n") + 2


@pytest.mark.parametrize(
    "line",
    ["#SBATCH -w " + "a" * 900_000 + "]", "#SBATCH --export=" + ",'" * 400_000,
     "#SBATCH -a " + "1," * 200_000, "#SBATCH -d afterok" + ":1" * 200_000,
     "#SBATCH " + "\\" * 900_000, "#SBATCH -" + "-x " * 100_000, ";a=" * 300_000 + " srun x"],
    ids=lambda line: line[:20],
)  # fmt: skip
def test_a_megabyte_on_one_line_takes_no_more_than_its_length(line: str) -> None:
    """With a quadratic reader this would take hours: the run itself is the check."""
    found = check(f"#!/bin/sh\n{line}\n", {}, NOW)
    assert found.errors or found.spec
    assert len(found.errors) <= 101 and all(len(str(error)) < 500 for error in found.errors)
