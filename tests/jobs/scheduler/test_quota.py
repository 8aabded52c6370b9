"""What a quota never allows is refused, with the limit, whose it is, and both numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Demand, Limited, Limits, Quota, Scope
from jobs.scheduler.periods import Rolling
from jobs.scheduler.quota import QuotaTree

LAB, VISION, ROBOTS = 1, 2, 3
PROJECTS = [
    Project(LAB, "lab", None),
    Project(VISION, "vision", LAB),
    Project(ROBOTS, "robots", LAB),
]
ASKED = Demand(17, VISION, 5, Band.BATCH, gpus=4, walltime_s=12 * 3600, partition="gpu")
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("quota", "change", "field", "asked", "allowed", "sentence"),
    [
        (
            Quota(VISION, Limits(gpus=2)), {}, "gpus", 4, 2,
            "Project vision may use 2 GPUs at once; this asks for 4.",
        ),
        (
            Quota(LAB, Limits(gpus=2.5)), {}, "gpus", 4, 2.5,
            "Project lab may use 2.5 GPUs at once; this asks for 4.",
        ),
        (
            Quota(VISION, Limits(gpus=1), Scope.USER, Band.BATCH), {}, "gpus", 4, 1,
            "Each user of project vision may use 1 GPU at once in band batch; this asks for 4.",
        ),
        (
            Quota(VISION, Limits(gpu_hours=40)), {}, "walltime", 48, 40,
            "Project vision may use 40 GPU-hours in a calendar month; "
            "4 GPUs for 12 h are 48, and could run 10 h at most.",
        ),
        (
            Quota(VISION, Limits(gpu_hours=47.999), period=Rolling(7)), {}, "walltime", 48, 47.999,
            "Project vision may use 48 GPU-hours in any 7 days; "
            "4 GPUs for 12 h are 48, and could run 11 h 59 min 59 s at most.",
        ),
        (
            Quota(VISION, Limits(gpu_hours=0)), {}, "gpus", 48, 0,
            "Project vision may use 0 GPU-hours in a calendar month; 4 GPUs for 12 h are 48.",
        ),
        (
            Quota(VISION, Limits(jobs_running=0)), {}, "project", 1, 0,
            "Project vision may run 0 jobs at once; this is one.",
        ),
        (
            Quota(VISION, Limits(jobs_pending=0)), {}, "project", 1, 0,
            "Project vision may have 0 jobs waiting; this is one.",
        ),
        (
            Quota(VISION, Limits(walltime_s=5400)), {}, "walltime", 43_200, 5400,
            "Jobs of project vision may run for 1 h 30 min at most; this asks for 12 h.",
        ),
        (
            Quota(LAB, Limits(partitions=frozenset({"long", "cpu"}))), {}, "partition", "gpu",
            ("cpu", "long"),
            "Jobs of project lab may run in these partitions: cpu, long; this asks for gpu.",
        ),
        (
            Quota(VISION, Limits(gpu_models=frozenset({A100}))), {"gpu_model": "h100"},
            "gpu_model", "h100", (A100,),
            f"Jobs of project vision may use GPUs of these models: {A100}; this asks for h100.",
        ),
        (
            Quota(VISION, Limits(gpu_models=frozenset())), {}, "gpu_model", "", (),
            "Jobs of project vision may use GPUs of these models: none; this asks for 4 GPUs.",
        ),
        (
            Quota(VISION, Limits(walltime_s=60), band=Band.BEST_EFFORT),
            {"band": Band.BEST_EFFORT}, "walltime", 43_200, 60,
            "Jobs of project vision in band best-effort may run for 1 min at most; "
            "this asks for 12 h.",
        ),
    ],
)  # fmt: skip
def test_refused(
    quota: Quota, change: dict[str, object], field: str, asked: object, allowed: object,
    sentence: str,
) -> None:  # fmt: skip
    refused = QuotaTree(PROJECTS, [quota]).refuse(replace(ASKED, **change))
    assert refused is not None
    assert (refused.field, refused.asked, refused.allowed) == (field, asked, allowed)
    assert refused.sentence == sentence


@pytest.mark.parametrize(
    ("quota", "change"),
    [
        (Quota(VISION, Limits(gpus=4, gpu_hours=48, jobs_running=1, jobs_pending=1)), {}),
        (Quota(VISION, Limits(walltime_s=12 * 3600, partitions=frozenset({"gpu"}))), {}),
        (Quota(ROBOTS, Limits(gpus=0)), {}),
        (Quota(VISION, Limits(gpus=0), band=Band.PRODUCTION), {}),
        (Quota(VISION, Limits(walltime_s=60), band=Band.BEST_EFFORT), {}),
        (Quota(VISION, Limits(gpus=0, walltime_s=1)), {"band": Band.BEST_EFFORT}),
        (Quota(VISION, Limits(gpus=0, gpu_hours=0, gpu_models=frozenset())), {"gpus": 0}),
        (Quota(VISION, Limits(gpu_models=frozenset({A100, H100}))), {"gpu_model": "h100"}),
        (Quota(VISION, Limits(gpu_models=frozenset({A100}))), {"gpu_model": None}),
    ],
)
def test_not_refused(quota: Quota, change: dict[str, object]) -> None:
    assert QuotaTree(PROJECTS, [quota]).refuse(replace(ASKED, **change)) is None


def test_an_array_is_refused_that_could_not_wait_as_a_whole() -> None:
    quotas = [Quota(VISION, Limits(jobs_pending=100))]
    assert QuotaTree(PROJECTS, quotas).refuse(ASKED, jobs=100) is None
    refused = QuotaTree(PROJECTS, quotas).refuse(ASKED, jobs=1000)
    assert refused is not None
    assert (refused.field, refused.asked) == ("array", 1000)
    assert refused.sentence == "Project vision may have 100 jobs waiting; these are 1,000."


def test_what_each_limit_allows_may_be_nothing_for_all_together() -> None:
    quotas = [
        Quota(VISION, Limits(gpu_models=frozenset({A100}))),
        Quota(LAB, Limits(gpu_models=frozenset({H100}))),
    ]
    refused = QuotaTree(PROJECTS, quotas).refuse(ASKED)
    assert refused is not None
    assert (refused.rule.project, refused.allowed) == ("lab", ())


def test_the_narrowest_of_equal_limits_counts_and_all_names_that_remain() -> None:
    quotas = [
        Quota(VISION, Limits(gpus=8, gpu_models=frozenset({A100, H100}))),
        Quota(VISION, Limits(gpus=3)),
        Quota(LAB, Limits(gpus=2, gpu_models=frozenset({H100, "RTX"}))),
    ]
    tree = QuotaTree(PROJECTS, quotas)
    limits = [rule.limit for rule in tree.rules(VISION, Band.BATCH) if rule.limited == "gpus"]
    assert limits == [3, 2]
    assert tree.allowed(Limited.GPU_MODELS, VISION, Band.BATCH) == {H100}
    assert tree.allowed(Limited.PARTITIONS, VISION, Band.BATCH) is None


def test_where_siblings_lend_only_what_all_have_together_is_refused() -> None:
    quotas = [Quota(VISION, Limits(gpus=2)), Quota(ROBOTS, Limits(gpus=3))]
    lends: frozenset[int | None] = frozenset({LAB})
    tree = QuotaTree(PROJECTS, quotas, lends)
    assert tree.refuse(ASKED) is None
    refused = tree.refuse(replace(ASKED, gpus=6))
    assert refused is not None
    assert (refused.field, refused.rule.project_id) == ("gpus", LAB)
    assert refused.sentence == (
        "The projects below lab lend to each other and have 5 GPUs in all; this asks for 6."
    )


def test_trees_that_are_none_and_quotas_of_nobody() -> None:
    ring = [Project(1, "a", 2), Project(2, "b", 1)]
    with pytest.raises(ValueError, match="project 1 is above itself"):
        QuotaTree(ring, [Quota(1, Limits())])
    with pytest.raises(ValueError, match="there is no project 9"):
        QuotaTree(PROJECTS, [Quota(9, Limits())])


def test_values_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="gpus must be a number from 0"):
        Limits(gpus=-1)
    with pytest.raises(ValueError, match="gpu_hours must be"):
        Limits(gpu_hours=float("nan"))
    with pytest.raises(ValueError, match="counts against no quota"):
        Quota(1, Limits(gpus=1), band=Band.BEST_EFFORT)


@pytest.mark.parametrize("band", [one for one in Band if one is not Band.BEST_EFFORT])
def test_a_limit_of_the_band_stands_before_that_of_all_bands_however_they_come(band: Band) -> None:
    quotas = [Quota(VISION, Limits(gpus=2)), Quota(VISION, Limits(gpus=2), band=band)]
    for some in (quotas, quotas[::-1]):
        found = QuotaTree(PROJECTS, some).rules(VISION, band)
        assert [rule.band for rule in found] == [band, None]
