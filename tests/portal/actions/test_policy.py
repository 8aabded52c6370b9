"""How jobs are scheduled, as administrators set it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from jobs.bands import Band
from jobs.scheduler.policy import BY_DEFAULT, Backfill, Order, Policy
from portal.actions import policy
from portal.models import Event, SchedulingPolicy, User
from portal.queries import accounts, snapshot
from tests.portal.cast import NOW


def test_a_new_lab_has_the_usual_policy(db: None) -> None:
    assert accounts.policy() == Policy()
    assert snapshot.take(NOW).policy == Policy()
    assert not SchedulingPolicy.objects.exists()


def test_what_is_set_is_what_the_scheduler_is_told(admin: User) -> None:
    lower = {"production": ["batch", "best-effort"], "monitoring": ["production"]}
    given: dict[str, Any] = {
        "order": "shortest", "backfill": "easy", "reservations": 3, "preempts": lower,
        "grace_s": 90, "min_run_s": 0, "max_preemptions": 0,
    }  # fmt: skip
    assert policy.set_policy(actor=admin, now=NOW, **given)
    assert snapshot.take(NOW).policy == Policy(
        order=Order.SHORTEST, backfill=Backfill.EASY, reservations=3,
        preempts={
            Band.PRODUCTION: frozenset({Band.BATCH, Band.BEST_EFFORT}),
            Band.MONITORING: frozenset({Band.PRODUCTION}),
        },
        grace_s=90.0, min_run_s=0.0, max_preemptions=0,
    )  # fmt: skip
    event = Event.objects.get()
    assert (event.kind, event.actor) == ("policy set", admin)
    assert event.changes["order"] == ["priority", "shortest"]
    usual = {str(band): sorted(victims) for band, victims in BY_DEFAULT.items()}
    assert event.changes["preempts"] == [usual, lower]
    assert event.changes.keys() == given.keys()


def test_nothing_is_told_of_what_stays(admin: User) -> None:
    assert not policy.set_policy(actor=admin, now=NOW, grace_s=60.0, order="priority")
    assert policy.set_policy(actor=admin, now=NOW, grace_s=30.0)
    assert not policy.set_policy(actor=admin, now=NOW, grace_s=30.0)
    assert [event.changes for event in Event.objects.all()] == [{"grace_s": [60.0, 30.0]}]
    with pytest.raises(TypeError, match="no terms: weights"):
        policy.set_policy(actor=admin, now=NOW, weights={})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("order", "by name", "is not a valid choice"),
        ("backfill", "", "cannot be blank"),
        ("reservations", 0, "At least 1 job is promised a time, not 0."),
        ("grace_s", -1, "The grace must be from 0 to 2,592,000 s, not -1.0."),
        ("grace_s", float("nan"), "The grace must be from 0 to 2,592,000 s, not nan."),
        ("min_run_s", 1e12, "The shortest run must be from 0"),
        ("max_preemptions", -1, "Nobody can make room -1 times."),
        ("max_preemptions", "often", "must be an integer"),
        ("preempts", {"batch": ["production"]}, "Batch jobs may preempt lower bands only."),
        ("preempts", {"batch": ["batch"]}, "Batch jobs may preempt lower bands only."),
        ("preempts", {"batch": "best-effort"}, "Give a list of bands for each band."),
        ("preempts", ["batch"], "Give a list of bands for each band."),
        ("preempts", [], "give a list of bands for each band."),
        ("preempts", {"urgent": []}, "'urgent' is not a valid Band."),
    ],
)
def test_what_is_no_policy_is_refused_by_field(
    admin: User, name: str, value: Any, message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        policy.set_policy(actor=admin, now=NOW, **{name: value})
    assert message in caught.value.message_dict[name][0]
    assert list(caught.value.message_dict) == [name]
    assert not SchedulingPolicy.objects.exists() and not Event.objects.exists()


def test_nobody_may_be_left_without_a_victim_to_preempt(admin: User) -> None:
    assert policy.set_policy(actor=admin, now=NOW, preempts={})
    assert accounts.policy().preempts == {}


def test_there_is_one_policy(admin: User) -> None:
    policy.set_policy(actor=admin, now=NOW, reservations=2)
    with pytest.raises(IntegrityError), transaction.atomic():
        SchedulingPolicy.objects.create(id=2)
