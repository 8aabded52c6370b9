"""What Carrel does about what is found, and how it is undone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from jobs.lifecycle import Reason, State
from jobs.nodes.signs import Sign
from portal.actions import findings, nodes, schedule
from portal.models import Event, Finding, Gpu, Lease, Node, Project, User
from portal.queries import holdings, machines
from tests.portal import cast
from tests.portal.cast import NOW

LATER = NOW + timedelta(minutes=5)


def found(node: Node, kind: str, gpu: Gpu | None = None) -> Finding:
    with transaction.atomic():
        sign = Sign(kind, "As seen.", gpu.uuid if gpu else "")
        return findings.open_(node=node, gpu=gpu, sign=sign, since=NOW, now=NOW)


def drained(node: Node) -> str | None:
    """Why, if it is."""
    node.refresh_from_db()
    return node.drain_reason if node.drained else None


def kinds(node: Node) -> list[str]:
    return list(Event.objects.filter(node=node).order_by("pk").values_list("kind", flat=True))


def test_a_serious_one_drains_the_node_until_it_is_over(node: Node) -> None:
    full = found(node, "disk-full")
    assert drained(node) == "The disk is full"
    assert kinds(node) == ["finding", "drained"]
    assert Event.objects.get(kind="finding").detail == "The disk is full. As seen."
    assert findings.clear(finding=full, actor=None, now=LATER)
    assert drained(node) is None
    assert kinds(node)[2:] == ["finding over", "resumed"]
    assert not findings.clear(finding=full, actor=None, now=LATER)


def test_a_warning_only_tells(node: Node) -> None:
    found(node, "disk-filling")
    assert drained(node) is None
    assert kinds(node) == ["finding"]


def test_a_clear_has_a_name(node: Node, admin: User) -> None:
    one = found(node, "xid-79", node.gpus.get(index=2))
    findings.clear(finding=one, actor=admin, now=LATER)
    one.refresh_from_db()
    assert (one.cleared_at, one.cleared_by) == (LATER, admin)
    event = Event.objects.get(kind="finding cleared")
    assert event.actor == admin
    assert event.detail.startswith("GPU 2: The GPU has fallen off the bus (Xid 79).")


def test_of_several_the_last_one_lets_it_take_jobs_again(node: Node) -> None:
    full, mount = found(node, "disk-full"), found(node, "mount")
    findings.clear(finding=full, actor=None, now=LATER)
    assert drained(node) == "A required mount is missing"
    findings.clear(finding=mount, actor=None, now=LATER)
    assert drained(node) is None


def test_what_a_person_drained_stays_so(node: Node, admin: User) -> None:
    nodes.drain(node=node, reason="fan noise", actor=admin, now=NOW)
    full = found(node, "disk-full")
    assert drained(node) == "fan noise"
    findings.clear(finding=full, actor=admin, now=LATER)
    assert drained(node) == "fan noise"


def test_a_person_may_take_the_drain_over(node: Node, admin: User) -> None:
    full = found(node, "disk-full")
    assert nodes.drain(node=node, reason="being rebuilt", actor=admin, now=NOW)
    assert drained(node) == "being rebuilt"
    assert not nodes.drain(node=node, reason="again", actor=admin, now=NOW)
    findings.clear(finding=full, actor=None, now=LATER)
    assert drained(node) == "being rebuilt"


def test_who_resumes_it_overrules_what_was_found(node: Node, admin: User) -> None:
    full, mount = found(node, "disk-full"), found(node, "mount")
    assert nodes.resume(node=node, actor=admin, now=NOW)
    assert drained(node) is None
    nodes.drain(node=node, reason="lunch", actor=admin, now=NOW)
    for one in (full, mount):
        findings.clear(finding=one, actor=None, now=LATER)
    assert drained(node) == "lunch"


def test_a_sick_gpu_gets_no_leases_and_the_others_do(node: Node) -> None:
    gpu = node.gpus.get(index=1)
    sick = found(node, "ecc", gpu)
    assert drained(node) is None

    def takers() -> list[int | None]:
        (seen,) = machines.nodes(machines.Holdings())
        return [gpu.job_id for gpu in seen.gpus]

    assert takers() == [None, machines.OUT_OF_SERVICE, None, None]
    (empty,) = machines.empty()
    assert [gpu.job_id for gpu in empty.gpus] == [None] * 4, "it is not gone for good"
    again = found(node, "rows-failed", gpu)
    findings.clear(finding=sick, actor=None, now=LATER)
    assert takers()[1] == machines.OUT_OF_SERVICE
    findings.clear(finding=again, actor=None, now=LATER)
    assert takers() == [None] * 4


def test_who_needs_a_sick_gpu_waits_for_it(node: Node, alice: User, project: Project) -> None:
    found(node, "ecc", node.gpus.get(index=1))
    all_four, three = (cast.job(alice, project, gpus=number) for number in (4, 3))
    schedule.schedule(now=NOW)
    three.refresh_from_db()
    assert three.state == State.CONFIGURING
    held = Gpu.objects.filter(leases__released_at=None, leases__isnull=False)
    assert set(held.values_list("index", flat=True)) == {0, 2, 3}
    all_four.refresh_from_db()
    assert (all_four.state, all_four.reason) == (State.PENDING, Reason.RESOURCES)


def test_a_shared_gpu_that_is_sick_is_shared_no_further(
    node: Node, alice: User, project: Project
) -> None:
    gpu = node.gpus.get(index=0)
    Gpu.objects.filter(pk=gpu.pk).update(shards=4)
    job = cast.job(alice, project, state=State.RUNNING)
    part = cast.run(job, node)
    Lease.objects.create(gpu=gpu, share=0, of=4, allocation=part)
    found(node, "ecc", gpu)
    (seen,) = machines.nodes(holdings.read())
    assert seen.gpus[0].sharers == ((machines.OUT_OF_SERVICE, 3), (job.pk, 1))


def test_a_card_that_is_moved_takes_its_findings_along(node: Node, admin: User) -> None:
    other = cast.node("gpu-2", gpus=0)
    gpu = node.gpus.get(index=1)
    one = found(node, "ecc", gpu)
    Gpu.objects.filter(pk=gpu.pk).update(node=other)
    assert list(findings.open_of(other)) == [one]
    assert list(findings.open_of(node)) == []


def test_jobs_on_a_sick_gpu_go_on_and_are_told(node: Node, alice: User, project: Project) -> None:
    job = cast.job(alice, project, state=State.RUNNING)
    cast.run(job, node, 0)
    other = cast.job(alice, project, state=State.RUNNING)
    cast.run(other, node, 1)
    found(node, "xid-94", node.gpus.get(index=0))
    job.refresh_from_db()
    assert job.state == State.RUNNING
    event = Event.objects.get(kind="GPU trouble")
    assert event.job == job
    assert event.detail.startswith("gpu-1, GPU 0: An error of the GPU's memory ended the job")
    assert "Start the job again." in event.detail


@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_database_has_each_only_once_at_a_time(node: Node, on_gpu: bool) -> None:
    gpu = node.gpus.get(index=0) if on_gpu else None
    first = found(node, "disk-filling", gpu)
    with pytest.raises(IntegrityError), transaction.atomic():
        found(node, "disk-filling", gpu)
    findings.clear(finding=first, actor=None, now=LATER)
    found(node, "disk-filling", gpu)
