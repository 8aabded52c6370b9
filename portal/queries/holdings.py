"""Who holds what of the machines, and who did until just now: read once, for all that asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from portal.models import Allocation, Lease, Prepared


class Part(NamedTuple):
    """An allocation, by the names of its columns."""

    pk: int
    node_id: int
    cpus: int
    memory_mib: int
    exclusive: bool
    charged_until: datetime
    released_at: datetime | None
    attempt__started_at: datetime
    attempt__ended_at: datetime | None
    attempt__leaves_by: datetime | None
    attempt__job_id: int
    attempt__job__project_id: int
    attempt__job__owner_id: int
    attempt__job__band: str
    attempt__job__walltime_s: int
    attempt__job__started_at: datetime | None
    attempt__job__state: str
    attempt__job__cancelled_at: datetime | None
    attempt__job__preemptions: int
    attempt__job__partition__name: str

    @property
    def open(self) -> bool:
        """It still holds what it was given."""
        return self.attempt__ended_at is None


class Leased(NamedTuple):
    """A lease, by the names of its columns."""

    allocation_id: int
    gpu_id: int
    gpu__model: str
    of: int
    released_at: datetime | None


@dataclass(frozen=True)
class Holdings:
    """Allocations in the order of their ids, and their leases."""

    parts: tuple[Part, ...] = ()
    shares: tuple[Leased, ...] = ()

    @property
    def open(self) -> Iterable[Part]:
        """Those that still hold something."""
        return (part for part in self.parts if part.open)


def _uncharged() -> QuerySet[Allocation]:
    # What is open is never charged to its end.
    return Allocation.objects.filter(charged=False)


_parts = Prepared(lambda: _parts_of(_uncharged()), Part._make)
_shares = Prepared(lambda: _shares_of(_uncharged()), Leased._make)


def read() -> Holdings:
    """All that hold something, and those that did and are not charged for all of it yet."""
    parts = tuple(_parts.rows())
    return Holdings(parts, tuple(_shares.rows()) if parts else ())


def of(allocations: QuerySet[Allocation]) -> Holdings:
    """In two queries."""
    parts = tuple(map(Part._make, _parts_of(allocations)))
    return Holdings(parts, tuple(map(Leased._make, _shares_of(allocations))) if parts else ())


def _parts_of(allocations: QuerySet[Allocation]) -> QuerySet[Any]:
    return allocations.order_by("pk").values_list(*Part._fields)


def _shares_of(allocations: QuerySet[Allocation]) -> QuerySet[Any]:
    leases = Lease.objects.filter(allocation__in=allocations.order_by().values("pk"))
    return leases.order_by("gpu_id", "share").values_list(*Leased._fields)
