"""Nodes as pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.core.paginator import Page, Paginator
from django.db.models import Case, IntegerField, Prefetch, Q, QuerySet, Value, When

from jobs.lifecycle import ACTIVE
from portal.models import Allocation, Event, Finding, Gpu, Job, Node
from portal.queries import findings, gpus
from portal.queries.findings import Counts
from portal.queries.gpus import Tile

PAGE_SIZE = 20
STRIP_SIZE = 48
RECENT = 12
EVENTS = 30
PATHS = 12

STATES: dict[str, tuple[str, Q]] = {
    "up": ("Up", Q(health=Node.Health.UP, drained=False)),
    "drained": ("Drained", Q(drained=True)),
    "findings": ("With findings", Q(findings.has_open())),
    "down": (Node.Health.UNREACHABLE.label.capitalize(), Q(health=Node.Health.UNREACHABLE)),
}


@dataclass(frozen=True)
class Filter:
    """What the URL asks for; a word it does not know counts as not given."""

    q: str = ""
    partition: str = ""
    state: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filter:
        """From a request's query string."""
        words = {name: query.get(name, "").strip().replace("\0", "") for name in ("q", "partition")}
        state = query.get("state", "")
        return cls(state=state if state in STATES else "", **words)

    @property
    def narrowed(self) -> bool:
        return self != Filter()


@dataclass(frozen=True)
class NodeView:
    """A node with its GPUs."""

    node: Node
    tiles: tuple[Tile, ...]

    @property
    def free(self) -> int:
        return sum(tile.use == gpus.Use.FREE for tile in self.tiles)

    @property
    def odd(self) -> int:
        return sum(tile.odd for tile in self.tiles)

    @property
    def findings(self) -> list[Finding]:
        """Those that are not over, the worst first."""
        found: list[Finding] = self.node.open_findings  # type: ignore[attr-defined]
        return found

    @property
    def finding_counts(self) -> Counts:
        return findings.counts(self.findings)

    @property
    def stale(self) -> bool:
        return any(tile.stale for tile in self.tiles)

    @property
    def memory_used_mib(self) -> int | None:
        if self.node.memory_available_mib is None:
            return None
        return max(self.node.memory_mib - self.node.memory_available_mib, 0)


def page(*, wanted: Filter, number: str, now: datetime) -> tuple[Page[Node], list[NodeView]]:
    """One page of nodes with their GPUs and who holds them."""
    found = _with_gpus(Node.objects.select_related("partition")).order_by("name")
    if wanted.q:
        found = found.filter(Q(name__icontains=wanted.q) | Q(hostname__icontains=wanted.q))
    if wanted.partition:
        found = found.filter(partition__name=wanted.partition)
    if wanted.state:
        found = found.filter(STATES[wanted.state][1])
    shown = Paginator(found, PAGE_SIZE).get_page(number)
    return shown, [view(node, now) for node in shown]


def strip(*, now: datetime) -> list[NodeView]:
    """The first nodes for the overview, those that need somebody first."""
    ailing = Case(
        When(health=Node.Health.UP, drained=False, then=Value(1)),
        default=Value(0),
        output_field=IntegerField(),
    )
    found = _with_gpus(Node.objects.all(), jobs=False).order_by(ailing, "name")
    return [view(node, now) for node in found[:STRIP_SIZE]]


def count() -> int:
    """Nodes in the lab."""
    return Node.objects.count()


def one(*, name: str, now: datetime) -> NodeView | None:
    """The present node of this name."""
    node = _with_gpus(Node.objects.select_related("partition")).filter(name=name).first()
    return view(node, now) if node else None


def view(node: Node, now: datetime) -> NodeView:
    """A node whose GPUs were fetched along with it."""
    found: list[Gpu] = node.present_gpus  # type: ignore[attr-defined]
    return NodeView(node=node, tiles=tuple(gpus.tile(gpu, node, now) for gpu in found))


def jobs_now(node: Node) -> list[Allocation]:
    """What runs there, by job."""
    return list(
        node.allocations.filter(attempt__ended_at=None, attempt__job__state__in=ACTIVE)
        .select_related("attempt__job__owner")
        .prefetch_related("leases__gpu")
        .order_by("attempt__job_id")
    )


def jobs_recently(node: Node) -> list[Job]:
    """The last jobs that had a part there and have ended."""
    parts = node.allocations.exclude(phase=Allocation.Phase.VOID)
    return list(
        Job.objects.filter(pk__in=parts.values("attempt__job_id"), ended_at__isnull=False)
        .select_related("owner")
        .order_by("-ended_at")[:RECENT]
    )


def events(node: Node) -> list[Event]:
    """What happened to it, newest first."""
    return list(node.events.select_related("actor").order_by("-id")[:EVENTS])


def paths(*, but: Node) -> list[str]:
    """The switches above other nodes, as in `leaf1, spine`, the first few."""
    known = Node.objects.exclude(pk=but.pk).exclude(switches=[])
    found = known.order_by("switches").values_list("switches", flat=True).distinct()
    return sorted(", ".join(switches) for switches in found[:PATHS])


def _with_gpus(nodes: QuerySet[Node], *, jobs: bool = True) -> QuerySet[Node]:
    return findings.with_open(nodes).prefetch_related(
        Prefetch("gpus", gpus.with_leases(jobs=jobs), to_attr="present_gpus")
    )
