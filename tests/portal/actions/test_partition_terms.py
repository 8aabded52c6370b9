"""What an administrator sets of a partition."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from jobs.scheduler.priority import PriorityWeights
from portal.actions import partitions
from portal.models import Event, Node, Partition, User
from portal.queries import snapshot
from tests.portal.cast import NOW


@pytest.fixture
def gpu(node: Node) -> Partition:
    return node.partition


def test_what_an_admin_sets_of_a_partition(gpu: Partition, admin: User) -> None:
    given: dict[str, Any] = {
        "max_walltime_s": 86_400, "default_walltime_s": 7200, "default_band": "production",
        "allowed_bands": ["production", "best-effort"], "priority_weights": {"age": 2000},
    }  # fmt: skip
    assert partitions.set_terms(partition=gpu, actor=admin, now=NOW, **given)
    event = Event.objects.get()
    assert (event.kind, event.detail, event.actor) == ("partition set", "gpu", admin)
    assert event.changes == {
        "max_walltime_s": [None, 86_400], "default_walltime_s": [None, 7200],
        "default_band": ["batch", "production"],
        "allowed_bands": [None, ["production", "best-effort"]],
        "priority_weights": [{}, {"age": 2000}],
    }  # fmt: skip
    assert not partitions.set_terms(partition=gpu, actor=admin, now=NOW, **given)
    assert snapshot.take(NOW).weights == (("gpu", PriorityWeights(age=2000)),)
    with pytest.raises(TypeError, match="no terms: name"):
        partitions.set_terms(partition=gpu, actor=admin, now=NOW, name="other")


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"max_walltime_s": 0}, "max_walltime_s", "greater than or equal to 60"),
        ({"default_walltime_s": 10**9}, "default_walltime_s", "less than or equal to"),
        (
            {"max_walltime_s": 600, "default_walltime_s": 601},
            "default_walltime_s",
            "It is longer than the longest.",
        ),
        ({"default_band": "urgent"}, "default_band", "not a valid choice"),
        ({"allowed_bands": ["production"]}, "default_band", "batch is not allowed here."),
        ({"allowed_bands": []}, "allowed_bands", "Name one or more"),
        ({"priority_weights": {"luck": 1}}, "priority_weights", "no weights of priority"),
        ({"priority_weights": {"age": -1}}, "priority_weights", "from 0 to 1e9"),
    ],
)
def test_what_a_partition_cannot_be_set_to(
    gpu: Partition, admin: User, given: dict[str, Any], field: str, message: str
) -> None:
    before = Partition.objects.values().get()
    with pytest.raises(ValidationError) as caught:
        partitions.set_terms(partition=gpu, actor=admin, now=NOW, **given)
    assert message in caught.value.message_dict[field][0]
    assert Partition.objects.values().get() == before
    assert not Event.objects.exists()
