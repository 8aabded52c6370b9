"""Quotas, charging and the division of GPUs, as administrators set them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.limits import Limits, Scope
from jobs.scheduler.limits import Quota as Value
from jobs.scheduler.periods import Rolling
from portal.actions import accounting, quotas, sharing
from portal.models import Accounting, Event, Gpu, GpuModel, Lease, Node, Project, Quota, User
from portal.queries import accounts, meters
from tests.portal import cast
from tests.portal.cast import NOW

A100 = "NVIDIA A100-SXM4-80GB"
Verb = Callable[..., Any]


@pytest.fixture
def do(admin: User) -> Verb:
    def does(verb: Verb, **given: Any) -> Any:
        return verb(actor=admin, now=NOW, **given)

    return does


def refused(verb: Callable[[], object]) -> dict[str, list[str]]:
    before = Event.objects.count(), list(Quota.objects.values())
    with pytest.raises(ValidationError) as caught:
        verb()
    assert (Event.objects.count(), list(Quota.objects.values())) == before
    return caught.value.message_dict


def told() -> tuple[str, str, Any]:
    event = Event.objects.latest("pk")
    assert event.actor.username == "root"
    return event.kind, event.detail, event.changes


def test_a_quota_is_set_changed_and_taken_away(do: Verb, project: Project, node: Node) -> None:
    mine = {"project": project, "scope": Scope.USER, "band": Band.BATCH}
    limits = {"gpus": 4, "gpu_hours": 100.5, "partitions": ["gpu"], "gpu_models": [A100]}
    assert do(quotas.set_quota, **mine, limits=limits, period_days=30)
    whose = "vision: each user, batch"
    assert told() == (
        "quota set", whose,
        {
            "gpus": [None, 4.0], "gpu_hours": [None, 100.5], "partitions": [None, ["gpu"]],
            "gpu_models": [None, [A100]], "period": ["month", "rolling"],
            "period_days": [None, 30],
        },
    )  # fmt: skip
    assert not do(quotas.set_quota, **mine, limits=limits, period_days=30)
    assert accounts.quotas() == (
        Value(
            project.pk,
            Limits(
                gpus=4.0, gpu_hours=100.5, partitions=frozenset({"gpu"}),
                gpu_models=frozenset({A100}),
            ),
            Scope.USER, Band.BATCH, Rolling(30),
        ),
    )  # fmt: skip
    assert do(quotas.set_quota, **mine, limits=limits | {"gpus": 0, "gpu_hours": None})
    assert told()[2]["gpus"] == [4.0, 0.0]
    assert Quota.objects.get().period == "month"
    assert do(quotas.set_quota, **mine, limits={})
    assert told()[2]["gpus"] == [0.0, None]
    assert not Quota.objects.exists()
    assert not do(quotas.set_quota, **mine, limits={})


def test_each_scope_and_band_has_its_own(do: Verb, project: Project) -> None:
    for scope in Scope:
        for band in (None, Band.BATCH):
            do(quotas.set_quota, project=project, scope=scope, band=band, limits={"gpus": 1})
    assert Quota.objects.count() == 4
    with pytest.raises(IntegrityError), transaction.atomic():
        Quota.objects.create(project=project, gpus=3)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"limits": {"gpus": -1}}, "gpus", "greater than or equal to 0"),
        ({"limits": {"gpus": float("nan")}}, "gpus", "Give a number."),
        ({"limits": {"gpu_hours": float("inf")}}, "gpu_hours", "less than or equal to"),
        ({"limits": {"jobs_running": "few"}}, "jobs_running", "must be an integer"),
        ({"limits": {"partitions": ["gpus"]}}, "partitions", "There is no gpus; there is gpu."),
        ({"limits": {"gpu_models": ["H100"]}}, "gpu_models", f"there is {A100}."),
        ({"limits": {"gpu_hours": 1}, "period_days": 0}, "period_days", "greater than or equal"),
        (
            {"limits": {"gpus": 1}, "band": Band.BEST_EFFORT},
            "__all__",
            "What runs in best-effort counts against no quota",
        ),
    ],
)
def test_what_is_no_quota_is_refused_by_field(
    do: Verb, project: Project, node: Node, given: dict[str, Any], field: str, message: str
) -> None:
    found = refused(lambda: do(quotas.set_quota, project=project, **given))
    assert message in found[field][0]


def test_a_limit_there_is_not_is_a_defect(do: Verb, project: Project) -> None:
    with pytest.raises(TypeError, match="no limits: cpus"):
        do(quotas.set_quota, project=project, limits={"cpus": 1})


def test_best_effort_may_be_limited_in_what_does_not_count(do: Verb, project: Project) -> None:
    do(
        quotas.set_quota, project=project, band=Band.BEST_EFFORT,
        limits={"walltime_s": 60, "jobs_pending": 5},
    )  # fmt: skip
    (found,) = accounts.quotas()
    assert (found.band, found.limits.walltime_s) == (Band.BEST_EFFORT, 60)


def test_how_the_lab_charges(do: Verb) -> None:
    assert do(accounting.set_terms, cpu_weight=0.5, half_life_s=3600)
    assert told() == (
        "charging set",
        "",
        {"cpu_weight": [0.02, 0.5], "half_life_s": [604800.0, 3600.0]},
    )
    assert not do(accounting.set_terms, cpu_weight=0.5)
    assert do(accounting.set_weight, gpu_model=A100, weight=2.5)
    assert told() == ("weight set", "", {A100: [None, 2.5]})
    assert (meters.weights().cpu, meters.weights().gpu_models) == (0.5, {A100: 2.5})
    assert do(accounting.set_weight, gpu_model=A100, weight=None)
    assert not do(accounting.set_weight, gpu_model=A100, weight=None)
    assert not GpuModel.objects.exists()
    for terms, field in (
        ({"gpu_weight": -1}, "gpu_weight"), ({"gpu_weight": float("nan")}, "gpu_weight"),
        ({"half_life_s": 0}, "half_life_s"), ({"entry_penalty": 1.5}, "entry_penalty"),
    ):  # fmt: skip
        assert list(refused(lambda terms=terms: do(accounting.set_terms, **terms))) == [field]
    with pytest.raises(TypeError, match="no terms: lends"):
        do(accounting.set_terms, lends=1)
    assert Accounting.current().half_life_s == 3600
    with pytest.raises(IntegrityError), transaction.atomic():
        Accounting.objects.create(id=2)


def test_a_gpu_is_divided_where_nobody_holds_it(
    do: Verb, node: Node, alice: User, project: Project
) -> None:
    gpu = node.gpus.get(index=0)
    part = cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    share = {"gpu": gpu, "shards": 4, "how": "mps"}
    (why,) = refused(lambda: do(sharing.share, **share))["shards"]
    assert (
        why
        == f"gpu-1 GPU 0 is in use by {part.attempt.job}; drain gpu-1, and wait until it is free."
    )
    Lease.objects.filter(allocation=part).update(released_at=NOW)
    assert do(sharing.share, **share)
    assert told() == ("GPU divided", "gpu-1 GPU 0", {"shards": [0, 4], "sharing": ["", "mps"]})
    assert not do(sharing.share, **share)
    node.refresh_from_db()
    assert (node.sharing, list(gpu.shares)) == ("mps", [0, 1, 2, 3])
    assert do(sharing.share, gpu=gpu, shards=0, how="mps")
    node.refresh_from_db()
    assert (node.sharing, Gpu.objects.get(pk=gpu.pk).shards) == ("", 0)


@pytest.mark.parametrize(
    ("shards", "how", "field"),
    [(4, "by turns", "sharing"), (23, "mps", "shards"), (-1, "mps", "shards")],
)
def test_what_cannot_be_divided_so_is_refused(
    do: Verb, node: Node, shards: int, how: str, field: str
) -> None:
    gpu = node.gpus.get(index=0)
    assert list(refused(lambda: do(sharing.share, gpu=gpu, shards=shards, how=how))) == [field]


def test_mig_instances_are_not_divided_again(do: Verb, node: Node) -> None:
    Gpu.objects.filter(node=node).update(mig_mode=True)
    gpu = node.gpus.get(index=0)
    assert "MIG" in refused(lambda: do(sharing.share, gpu=gpu, shards=2, how="mps"))["shards"][0]
