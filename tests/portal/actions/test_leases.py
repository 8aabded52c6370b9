"""What nodes are granted, and what is written down of it."""

from __future__ import annotations

from typing import Any

import pytest

from portal.actions import leases
from portal.models import Node

LEASE_S = 30


@pytest.fixture
def lease(settings: Any) -> None:
    settings.LEASE_S = LEASE_S


def test_a_grant_is_written_down_before_anybody_hears_of_it(node: Node, lease: None) -> None:
    assert leases.grant(node) is None
    Node.objects.update(clock=100.0, clock_boot_id="b")
    found = leases.grant(node)
    assert found is not None and (found.boot_id, found.until) == ("b", 130.0)
    assert leases.terms() == {}
    assert Node.objects.values_list("lease_boot_id", "lease_until").get() == ("b", 130.0)


def test_a_grant_is_repeated_while_it_is_fresh(node: Node, lease: None) -> None:
    Node.objects.update(clock=100.0, clock_boot_id="b")
    first = leases.grant(node)
    Node.objects.update(clock=100.0 + LEASE_S / leases.PROLONG_PART - 0.1)
    assert leases.grant(node) == first
    Node.objects.update(clock=100.0 + LEASE_S / leases.PROLONG_PART + 0.1)
    assert leases.grant(node) != first


def test_a_new_boot_has_a_lease_of_its_own(node: Node, lease: None) -> None:
    """Its clock begins at nought; that of the one before is far ahead."""
    Node.objects.update(clock=5e5, clock_boot_id="old", lease_boot_id="old", lease_until=5e5 + 30)
    Node.objects.update(clock=12.0, clock_boot_id="new")
    found = leases.grant(node)
    assert found is not None and (found.boot_id, found.until) == ("new", 42.0)
    assert Node.objects.values_list("lease_boot_id", "lease_until").get() == ("new", 42.0)


@pytest.mark.parametrize("clock", [None, -1.0, float("nan"), float("inf"), 1e300])
def test_a_clock_that_makes_no_sense_is_none(clock: float | None) -> None:
    assert leases.reading(clock, "b") == {}
