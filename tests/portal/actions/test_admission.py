"""What a partition and quotas say of a request before it is taken in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from jobs.bands import Band
from jobs.directives import SpecErrors
from jobs.rules import SpecError
from jobs.scheduler.limits import Scope
from portal.actions import quotas, submit
from portal.models import Job, Node, Partition, Project, User
from tests.portal import cast
from tests.portal.cast import NOW

A100 = "NVIDIA A100-SXM4-80GB"
pytestmark = pytest.mark.usefixtures("node")


@pytest.fixture
def gpu(node: Node) -> Partition:
    return node.partition


@pytest.fixture
def limit(admin: User) -> Callable[..., bool]:
    def limits(project: Project, scope: Scope = Scope.PROJECT, **columns: Any) -> bool:
        band = columns.pop("band", None)
        return quotas.set_quota(
            project=project, scope=scope, band=band, limits=columns, actor=admin, now=NOW
        )

    return limits


def script(*options: str) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {option}" for option in options), "true", ""])


def asks(owner: User, *options: str, key: str | None = None, **overrides: str) -> submit.Request:
    return submit.read(
        owner=owner, script=script(*options), overrides=overrides, now=NOW, key=key
    )  # fmt: skip


def takes(owner: User, *options: str, key: str | None = None, **overrides: str) -> Job:
    asked = asks(owner, *options, key=key, **overrides)
    return submit.submit(
        owner=owner, spec=asked.spec, project=asked.project, partition=asked.partition, now=NOW,
        key=key,
    )  # fmt: skip


def refused(verb: Callable[[], object]) -> SpecError:
    with pytest.raises(SpecErrors) as caught:
        verb()
    (error,) = caught.value.errors
    return error


@pytest.mark.parametrize(
    ("usual", "longest", "gets"),
    [(None, None, 3600), (7200, None, 7200), (None, 600, 600), (None, 7200, 3600)],
)
def test_who_gives_no_walltime_has_the_partitions(
    gpu: Partition, alice: User, usual: int | None, longest: int | None, gets: int
) -> None:
    Partition.objects.update(default_walltime_s=usual, max_walltime_s=longest)
    other = Partition.objects.create(name="other", default_walltime_s=300)
    cast.node("n9", partition=other)
    assert takes(alice).walltime_s == gets
    assert takes(alice, walltime="0:05:00").walltime_s == 300
    assert takes(alice, "-p other").walltime_s == 300
    assert takes(alice, "-p other", partition="gpu").walltime_s == gets
    assert Job.objects.order_by("pk").first().spec["walltime_s"] == gets


def test_the_page_says_which_walltime_that_is(as_alice: Client) -> None:
    Partition.objects.update(default_walltime_s=7200)
    page = as_alice.post("/jobs/check/", {"script": script()})
    assert "not given: the job is stopped after 120 minutes" in page.text
    assert page.context["asked"].spec.walltime_s == 7200


def test_the_empty_form_shows_that_of_the_partition(
    as_alice: Client, alice: User, project: Project
) -> None:
    def shown(url: str) -> Any:
        field = as_alice.get(url).context["form"]["walltime"].field
        return field.widget.attrs["placeholder"]

    assert shown("/jobs/new/") == "1:00:00"
    Partition.objects.update(default_walltime_s=7200)
    assert shown("/jobs/new/") == "2:00:00"
    long = Partition.objects.create(name="long", default_walltime_s=100_000)
    old = cast.job(alice, project, partition=long)
    assert shown(f"/jobs/{old.pk}/relaunch/") == "1-03:46:40"


def test_who_gives_too_long_a_walltime_is_told_the_longest(gpu: Partition, alice: User) -> None:
    Partition.objects.update(max_walltime_s=5400)
    error = refused(lambda: asks(alice, walltime="2:00:00"))
    assert str(error) == "walltime: partition gpu allows 1 h 30 min at most"
    error = refused(lambda: asks(alice, "--time=90:01"))
    assert (error.field, error.line) == ("--time", 2)


NEVER: dict[str, tuple[dict[str, Any], tuple[str, ...], str, str]] = {
    "gpus": ({"gpus": 2}, ("--gres=gpu:4",), "--gres", "may use 2 GPUs at once"),
    "gpus, by another name": ({"gpus": 2}, ("-N2", "--gpus=4"), "--gpus", "may use 2 GPUs at once"),
    "GPU-hours": ({"gpu_hours": 3}, ("-t 4:00:00", "--gpus=1"), "-t", "may use 3 GPU-hours"),
    "walltime": ({"walltime_s": 60}, ("--time=2",), "--time", "may run for 1 min at most"),
    "jobs running": ({"jobs_running": 0}, ("-A vision",), "-A", "may run 0 jobs at once"),
    "partition": ({"partitions": []}, ("-p gpu",), "-p", "may run in these partitions: none"),
    "model": ({"gpu_models": []}, ("--gres=gpu:A100:1",), "--gres", "GPUs of these models: none"),
    "jobs waiting": ({"jobs_pending": 2}, ("-a 1-3",), "-a", "may have 2 jobs waiting"),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_a_quota_can_never_allow_is_refused_where_it_was_asked(
    limit: Callable[..., bool], project: Project, alice: User, name: str
) -> None:
    cast.node("gpu-2")
    limits, options, field, message = NEVER[name]
    limit(project, **limits)
    error = refused(lambda: asks(alice, *options))
    assert (error.field, error.line is not None) == (field, True)
    assert message in error.message


@pytest.mark.parametrize(
    ("limits", "typed", "field"),
    [
        ({"gpus": 2}, {"gpus_per_node": "4"}, "gpus_per_node"),
        ({"gpu_hours": 3}, {"gpus_per_node": "1", "walltime": "4:00:00"}, "walltime"),
        ({"walltime_s": 60}, {"walltime": "2"}, "walltime"),
        ({"walltime_s": 60}, {}, "walltime"),
        ({"jobs_pending": 0}, {}, "project"),
        ({"jobs_pending": 2}, {"array": "1-3"}, "array"),
        ({"partitions": []}, {}, "partition"),
    ],
)
def test_the_form_shows_it_at_its_field(
    limit: Callable[..., bool],
    as_alice: Client,
    project: Project,
    limits: dict[str, Any],
    typed: dict[str, str],
    field: str,
) -> None:
    limit(project, **limits)
    page = as_alice.post("/jobs/new/", {"script": script(), **typed})
    assert page.status_code == 422
    assert list(page.context["form"].errors) == [field]
    assert not Job.objects.exists()


TOO_MUCH = {
    "model": (("--gres=gpu:h100:1",), "--gres", "has none, only NVIDIA A100-SXM4-80GB"),
    "GPUs": (("--gpus-per-node=5", "-C a100"), "--gpus-per-node", "(gpu-1) has 4"),
    "feature": (("-G 1", "--constraint=ib"), "--constraint", "asks for ib"),
    "GPUs in one word": (("--gres=gpu:a100:5",), "--gres", "(gpu-1) has 4"),
    "GPUs in all": (("--gpus=5",), "--gpus", "(gpu-1) has 4"),
    "GPUs of tasks": (("--gpus-per-task=5",), "--gpus-per-task", "(gpu-1) has 4"),
    "tasks": (("--ntasks=33",), "--ntasks", "(gpu-1) has 32"),
    "memory": (("--mem=300G",), "--mem", "(gpu-1) has 256 GiB"),
    "memory of CPUs": (("-c 32", "--mem-per-cpu=9G"), "--mem-per-cpu", "(gpu-1) has 256 GiB"),
    "nodes by name": (("-w gpu-1,gpu-7",), "-w", "asks for 2 nodes"),
    "nodes": (("-N2",), "-N", "asks for 2 nodes; partition gpu has 1"),
    "a node by name": (("-w gpu-7",), "-w", "asks for node gpu-7"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_no_node_has_is_refused_where_it_was_asked(
    project: Project, alice: User, node: Node, name: str
) -> None:
    options, field, message = TOO_MUCH[name]
    error = refused(lambda: asks(alice, *options))
    assert (error.field, error.line is not None) == (field, True)
    assert message in error.message


def test_what_the_form_asks_for_is_refused_at_its_field(alice: User, node: Node) -> None:
    error = refused(lambda: asks(alice, "--mem-per-cpu=1G", memory="300G"))
    assert (error.field, error.line) == ("memory", None)


def test_a_refusal_names_the_partitions_where_it_would_fit(
    project: Project, alice: User, node: Node
) -> None:
    for name, gpus in (("large", 8), ("small", 2), ("vast", 16)):
        cast.node(f"{name}-1", gpus=gpus, partition=Partition.objects.create(name=name))
    error = refused(lambda: asks(alice, "--gpus-per-node=6"))
    assert error.message.endswith("(gpu-1) has 4; it would fit in partition large, vast")
    assert "would fit" not in refused(lambda: asks(alice, "--gpus-per-node=17")).message


def test_what_takes_two_changes_is_refused_as_a_whole(
    project: Project, alice: User, node: Node
) -> None:
    assert refused(lambda: asks(alice, "--mem=300G", "--gpus-per-node=5")).field == "resources"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--gpus-per-node=4",), "--gpus-per-node"),
        (("-N3", "--gpus-per-node=1"), "--gpus-per-node"),
        (("--gres=gpu:4",), "--gres"),
        (("--gpus-per-node=1", "--exclusive", "-w gpu-3"), "--gpus-per-node"),
        (("--exclusive", "-w gpu-3"), "--exclusive"),
    ],
)
def test_models_that_quotas_leave_must_be_enough(
    limit: Callable[..., bool], project: Project, alice: User, node: Node,
    options: tuple[str, ...], field: str,
) -> None:  # fmt: skip
    """Else it would wait for ever."""
    cast.node("gpu-2", gpus=2).gpus.update(model="NVIDIA H100 80GB HBM3")
    mixed = cast.node("gpu-3", gpus=2)
    mixed.gpus.filter(index=0).update(model="NVIDIA H100 80GB HBM3")
    limit(project, gpu_models=["NVIDIA H100 80GB HBM3"])
    assert asks(alice, "--gpus-per-node=2")
    assert asks(alice, "-N2")
    error = refused(lambda: asks(alice, *options))
    assert (error.field, error.line is not None) == (field, True)
    assert "allow GPUs of these models only: NVIDIA H100 80GB HBM3" in error.message


def test_limits_of_the_project_above_and_of_its_band_hold(
    limit: Callable[..., bool], project: Project, alice: User
) -> None:
    group = Project.objects.create(name="group")
    Project.objects.filter(pk=project.pk).update(parent=group)
    limit(group, gpus=2)
    assert "Project group may use 2 GPUs" in refused(lambda: asks(alice, "--gpus=3")).message
    assert asks(alice, "--gpus=2")
    assert asks(alice, "--gpus=3", band="best-effort")
    limit(project, band=Band.PRODUCTION, gpus=1)
    assert asks(alice, "--gpus=2")
    Partition.objects.update(default_band="production")
    assert "in band production" in refused(lambda: asks(alice, "--gpus=2")).message


def test_parts_of_a_gpu_count_as_such(
    limit: Callable[..., bool], project: Project, alice: User, node: Node
) -> None:
    node.gpus.update(shards=4)
    limit(project, gpus=0.5)
    assert asks(alice, "--gres=shard:2")
    error = refused(lambda: asks(alice, "--gres=shard:3"))
    assert (error.field, "this asks for 0.75" in error.message) == ("--gres", True)


def test_a_whole_node_counts_as_all_its_gpus(
    limit: Callable[..., bool], project: Project, alice: User
) -> None:
    limit(project, gpus=3)
    assert asks(alice, "--gpus=1")
    error = refused(lambda: asks(alice, "--gpus=1", "--exclusive"))
    assert "may use 3 GPUs at once; this asks for 4" in error.message
    cast.node("gpu-2", gpus=2)
    assert asks(alice, "--gpus=1", "--exclusive")


def test_no_more_jobs_wait_than_may(
    limit: Callable[..., bool], project: Project, alice: User, bob: User
) -> None:
    limit(project, jobs_pending=3)
    limit(project, Scope.USER, jobs_pending=2)
    assert takes(alice, "--array=0-1")
    error = refused(lambda: takes(alice))
    assert error.field == "project"
    assert "Each user of project vision may have 2 jobs waiting: 2" in error.message
    assert takes(bob)
    assert "Project vision may have 3 jobs waiting: 3" in refused(lambda: takes(bob)).message
    assert takes(bob, band="best-effort")
    Job.objects.filter(owner=alice).update(state="RUNNING")
    assert refused(lambda: takes(alice, "--array=0-2")).field == "--array"
    assert takes(alice)


def test_who_clicks_twice_is_not_refused_for_the_first_click(
    limit: Callable[..., bool], project: Project, alice: User
) -> None:
    limit(project, jobs_pending=1)
    first = takes(alice, key="one")
    assert takes(alice, key="one") == first
    assert refused(lambda: takes(alice, key="two")).field == "project"


def test_who_was_quicker_counts(limit: Callable[..., bool], project: Project, alice: User) -> None:
    limit(project, jobs_pending=1)
    slow = asks(alice)
    takes(alice)
    error = refused(
        lambda: submit.submit(
            owner=alice, spec=slow.spec, project=slow.project, partition=slow.partition, now=NOW
        )
    )
    assert "this is 1 more" in error.message
    assert Job.objects.count() == 1
