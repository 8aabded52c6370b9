"""The ledger equals lease time x weight, however often and wherever charging was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.usage import Charge as Cost
from jobs.scheduler.usage import Decay, usage_of
from portal.actions import accounting, balances, charge, sums
from portal.models import (
    Accounting,
    Allocation,
    Charge,
    DailyUsage,
    Gpu,
    GpuModel,
    Lease,
    Node,
    Project,
    UsageBalance,
    User,
)
from tests.portal import cast
from tests.portal.cast import NOW
from tests.portal.killed import at_every_line

A100 = "NVIDIA A100-SXM4-80GB"
CPUS = max(4 * 0.02, 16 * 0.0025)
"""What the CPUs and the memory of `cast.run` cost."""
Runs = Callable[..., Allocation]


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


@pytest.fixture
def runs(node: Node, alice: User, project: Project) -> Runs:
    def run(*gpus: int, band: Band = Band.BATCH, owner: User = alice) -> Allocation:
        job = cast.job(owner, project, state=State.RUNNING, gpus=len(gpus), band=band)
        return cast.run(job, node, *gpus)

    return run


def release(part: Allocation, when: datetime) -> None:
    Lease.objects.filter(allocation=part).update(released_at=when)
    Allocation.objects.filter(pk=part.pk).update(released_at=when)


def rows(part: Allocation) -> list[tuple[datetime, datetime, float, float]]:
    found = part.charges.order_by("starts_at", "gpu_model")
    return [
        (row.starts_at, row.ends_at, row.gpu_seconds, pytest.approx(row.weighted)) for row in found
    ]


def agree() -> None:
    """What was charged is what the sums and the pointers say."""
    by_day = DailyUsage.objects.aggregate(g=Sum("gpu_seconds"), w=Sum("weighted"))
    charged = Charge.objects.aggregate(g=Sum("gpu_seconds"), w=Sum("weighted"))
    assert {k: v or 0 for k, v in by_day.items()} == pytest.approx(
        {k: v or 0 for k, v in charged.items()}
    )
    for part in Allocation.objects.all():
        held = (part.charged_until - NOW).total_seconds() * len(part.gpus)
        assert held == pytest.approx(sum(row.gpu_seconds for row in part.charges.all()))


def test_an_allocation_is_charged_as_it_goes_on_and_at_its_end(runs: Runs) -> None:
    part = runs(0, 1)
    assert charge.charge(now=NOW + timedelta(seconds=59)) == 0
    assert charge.charge(now=at(1)) == 1
    assert charge.charge(now=at(1)) == 0
    assert rows(part) == [(NOW, at(1), 7200, 3600 * (2 + CPUS))]
    release(part, at(1.001))
    assert charge.charge(now=at(5)) == 1
    assert rows(part) == [(NOW, at(1.001), 7207.2, 3603.6 * (2 + CPUS))]
    assert charge.charge(now=at(9)) == 0
    part.refresh_from_db()
    assert (part.charged, part.charged_until) == (True, at(1.001))
    agree()


def test_each_day_has_a_row(runs: Runs, project: Project, alice: User) -> None:
    part = runs(0)
    midnight = datetime(2026, 11, 4, tzinfo=UTC)
    for hours in (6, 12, 13, 20, 37):
        charge.charge(now=at(hours))
    hour = 3600 * (1 + CPUS)
    assert rows(part) == [
        (NOW, midnight, 12 * 3600, 12 * hour),
        (midnight, midnight + timedelta(days=1), 24 * 3600, 24 * hour),
        (midnight + timedelta(days=1), at(37), 3600, hour),
    ]
    found = DailyUsage.objects.order_by("day").values_list(
        "day", "project", "user", "band", "gpu_model", "gpu_seconds"
    )
    account = (project.pk, alice.pk, "batch", A100)
    assert list(found) == [
        (midnight - timedelta(days=1), *account, 12 * 3600),
        (midnight, *account, 24 * 3600),
        (midnight + timedelta(days=1), *account, 3600),
    ]
    agree()


def test_weights_are_the_labs(runs: Runs) -> None:
    GpuModel.objects.create(name=A100, weight=2)
    Accounting.objects.create(cpu_weight=0.5)
    runs(0)
    charge.charge(now=at(1))
    assert Charge.objects.get().weighted == pytest.approx(3600 * (2 + 4 * 0.5))


@pytest.mark.parametrize("hours", [0.01, 100])
def test_what_was_used_before_other_weights_is_charged_by_the_old_ones(
    runs: Runs, alice: User, hours: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nobody had charged it for a minute, or for days."""
    monkeypatch.setattr(charge, "BATCH", 1)
    parts = [runs(0), runs(1)]
    release(parts[1], at(hours / 2))
    by = {"actor": alice, "now": at(hours)}
    assert accounting.set_weight(gpu_model=A100, weight=3, **by)
    assert accounting.set_terms(cpu_weight=1, **by)
    charge.charge(now=at(hours + 1))
    used = [sum(row.weighted for row in part.charges.all()) / 3600 for part in parts]
    assert used == pytest.approx([hours * (1 + CPUS) + 3 + 4, hours / 2 * (1 + CPUS)])
    for weight in (3, None):
        accounting.set_weight(gpu_model=A100, weight=weight, actor=alice, now=at(hours + 2))
    charge.charge(now=at(hours + 3))
    used = sum(row.weighted for row in parts[0].charges.all()) / 3600
    assert used == pytest.approx(hours * (1 + CPUS) + 2 * (3 + 4) + 1 + 4)
    agree()


def test_what_is_sent_only_later_costs_by_the_terms_of_then(runs: Runs) -> None:
    part = runs(0)
    Allocation.objects.update(phase=Allocation.Phase.PLANNED)
    accounting.set_terms(cpu_weight=1, half_life_s=3600, actor=None, now=at(1))
    accounting.set_weight(gpu_model=A100, weight=2, actor=None, now=at(1))
    assert not Charge.objects.exists()
    Allocation.objects.update(phase=Allocation.Phase.LAUNCHING)
    charge.charge(now=at(2))
    assert rows(part) == [(NOW, at(2), 7200, 7200 * (2 + 4))]
    agree()
    balance = UsageBalance.objects.get().value
    balances.make_anew(Decay(3600), at(2))
    assert UsageBalance.objects.get().value == pytest.approx(balance)


def test_a_job_without_gpus_pays_for_its_cpus(runs: Runs) -> None:
    part = runs()
    charge.charge(now=at(1))
    assert rows(part) == [(NOW, at(1), 0, 3600 * CPUS)]


def test_gpus_of_two_models_are_charged_apart(runs: Runs, node: Node) -> None:
    Gpu.objects.filter(node=node, index=1).update(model="NVIDIA H100")
    GpuModel.objects.create(name="NVIDIA H100", weight=3)
    part = runs(0, 1)
    charge.charge(now=at(1))
    charge.charge(now=at(2))
    assert rows(part) == [
        (NOW, at(2), 7200, 7200 * (1 + CPUS)),
        (NOW, at(2), 7200, 7200 * 3),
    ]


def test_a_share_of_a_gpu_is_a_part_of_one(runs: Runs, node: Node) -> None:
    Gpu.objects.filter(node=node).update(shards=4)
    whole, part = runs(0), runs()
    for share in (1, 2):
        Lease.objects.create(gpu=node.gpus.get(index=1), share=share, of=4, allocation=part)
    # It stays what it was when an admin divides the GPU otherwise.
    Gpu.objects.filter(node=node).update(shards=2)
    charge.charge(now=at(1))
    assert [row[2] for row in rows(whole)] == [3600]
    assert [row[2] for row in rows(part)] == [1800]


def test_the_balance_is_what_the_formula_says(runs: Runs, alice: User, bob: User) -> None:
    first, second = runs(0, 1), runs(2, owner=bob)
    for hours in (1, 5, 30):
        charge.charge(now=at(hours))
    release(first, at(40))
    charge.charge(now=at(48))
    charge.charge(now=at(50))
    decay = Decay()
    for owner, gpus, end in ((alice, 2, 40), (bob, 1, 50)):
        row = UsageBalance.objects.get(user=owner)
        wanted = usage_of(Cost(gpus + CPUS, NOW, at(end)), decay).seen(row.at, decay)
        assert row.value == pytest.approx(wanted.value)
    assert second.charges.count() == 3
    agree()


def test_what_was_held_before_there_was_a_ledger_is_charged(runs: Runs) -> None:
    part = runs(0)
    release(part, at(100))
    assert charge.charge(now=at(24 * 300)) == 1
    assert sum(row[2] for row in rows(part)) == 100 * 3600
    agree()


def test_a_clock_that_is_behind_charges_nothing(runs: Runs) -> None:
    part = runs(0)
    charge.charge(now=at(2))
    assert charge.charge(now=at(1)) == 0
    release(part, at(2))
    assert charge.charge(now=at(1)) == 1
    assert rows(part) == [(NOW, at(2), 7200, 7200 * (1 + CPUS))]
    part.refresh_from_db()
    assert part.charged


def test_killed_at_any_line_nothing_is_lost_or_charged_twice(runs: Runs, bob: User) -> None:
    parts = [runs(0, 1), runs(2, owner=bob, band=Band.BEST_EFFORT)]
    charge.charge(now=at(2))
    release(parts[1], at(20))
    kills = 0
    for _ in at_every_line(lambda: charge.charge(now=at(30)), charge, sums):
        kills += 1
        agree()
        balance = UsageBalance.objects.aggregate(total=Sum("value"))["total"]
        until = Allocation.objects.values_list("charged_until", flat=True).order_by("pk")
        # Each batch is all there or not at all.
        assert (balance, list(until)) in [
            (pytest.approx(7200 * (2 + CPUS) + 7200 * (1 + CPUS), rel=0.02), [at(2), at(2)]),
            (pytest.approx(108_000 * (2 + CPUS) + 72_000 * (1 + CPUS), rel=0.1), [at(30), at(20)]),
        ]
    assert kills > 12
    total = Charge.objects.aggregate(total=Sum("gpu_seconds"))["total"]
    assert total == 2 * 30 * 3600 + 20 * 3600
    agree()


def test_more_than_a_batch_is_charged_at_once(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charge, "BATCH", 2)
    for _ in range(5):
        runs()
    assert charge.charge(now=at(1)) == 5
    monkeypatch.setattr(charge, "MAX_BATCHES", 1)
    assert charge.charge(now=at(2)) == 2
    agree()


def test_many_take_as_many_queries_as_few(runs: Runs) -> None:
    def queries(hours: float) -> int:
        with CaptureQueriesContext(connection) as captured:
            charge.charge(now=at(hours))
        return len(captured)

    runs(0)
    queries(1)
    few = queries(2)
    for _ in range(20):
        runs()
    queries(3)
    assert queries(4) == few


def test_the_database_refuses_a_second_charge(runs: Runs) -> None:
    runs(0)
    charge.charge(now=at(1))
    row = Charge.objects.get()
    row.pk = None
    row.ends_at = at(3)
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save()
