"""A node is asked for its health once a minute, and what it tells is acted upon."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.lifecycle import State
from jobs.nodes.health import CardSeen, HealthAsked, HealthSeen, KernelLog
from jobs.nodes.transport import NodeError
from portal import reach
from portal.actions import checkup
from portal.models import Checkup, Event, Finding, Gpu, Node, Project, User
from tests.portal import cast
from tests.portal.actions.conftest import Lab
from tests.portal.cast import NOW

MINUTE = timedelta(minutes=1)


class Machine:
    """Tells what it is given; only the contract's one verb."""

    def __init__(self, node: Node) -> None:
        self.cards = tuple(
            CardSeen(gpu.uuid, gpu.index, f"00000000:0{gpu.index}:00.0") for gpu in node.gpus.all()
        )
        self.tells = HealthSeen("boot-1", NOW.timestamp(), 0.0, KernelLog(7), self.cards)
        self.asked: list[HealthAsked] = []
        self.error: NodeError | None = None
        self.looks = 0

    def health(self, asked: HealthAsked) -> HealthSeen:
        self.asked.append(asked)
        if self.error:
            raise self.error
        return replace(self.tells, at=(NOW + self.looks * MINUTE).timestamp())


@pytest.fixture
def machine(node: Node, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for gpu in node.gpus.all():
        Gpu.objects.filter(pk=gpu.pk).update(pci_bus_id=f"00000000:0{gpu.index}:00.0")
    made = Machine(node)
    monkeypatch.setattr(reach, "engine", lambda _: made)
    return made


def look(node: Node, machine: Machine) -> datetime:
    """The next minute's."""
    machine.looks += 1
    now = NOW + machine.looks * MINUTE
    checkup.check(node_id=node.pk, now=now)
    return now


def kinds() -> list[str]:
    """Of the findings that are not over."""
    return sorted(Finding.objects.filter(cleared_at=None).values_list("kind", flat=True))


def test_a_node_is_asked_once_a_minute_and_only_while_it_is_up(
    node: Node, machine: Machine
) -> None:
    assert checkup.due(NOW) == [node.pk]
    checkup.check(node_id=node.pk, now=NOW)
    assert checkup.due(NOW + MINUTE / 2) == []
    checkup.check(node_id=node.pk, now=NOW + MINUTE / 2)
    assert len(machine.asked) == 1
    assert checkup.due(NOW + MINUTE) == [node.pk]
    Node.objects.update(health=Node.Health.UNREACHABLE)
    assert checkup.due(NOW + MINUTE) == []
    checkup.check(node_id=node.pk, now=NOW + MINUTE)
    assert len(machine.asked) == 1


def test_where_the_log_is_known_to_is_kept(node: Node, machine: Machine) -> None:
    Node.objects.update(mounts=["/home"], check_program="/bin/check")
    look(node, machine)
    assert machine.asked[-1] == HealthAsked(None, None, ("/home",), "/bin/check")
    look(node, machine)
    assert machine.asked[-1] == HealthAsked("boot-1", 7, ("/home",), "/bin/check")


def test_an_error_of_a_gpu_takes_it_out_of_service(node: Node, machine: Machine) -> None:
    lines = ("NVRM: Xid (PCI:0000:02:00): 95, pid=17",)
    machine.tells = replace(machine.tells, kernel_log=KernelLog(9, lines))
    now = look(node, machine)
    one = Finding.objects.get()
    assert (one.kind, one.gpu, one.text) == ("xid-95", node.gpus.get(index=2), "Xid 95: pid=17.")
    assert now <= one.since == one.seen_at < now + MINUTE
    assert [gpu.out_of_service for gpu in node.gpus.order_by("index")] == [
        False,
        False,
        True,
        False,
    ]
    machine.tells = replace(machine.tells, kernel_log=KernelLog(9))
    for _ in range(5):
        look(node, machine)
    assert kinds() == ["xid-95"], "it needs hands"


def test_a_silent_driver_drains_the_node_until_it_answers(node: Node, machine: Machine) -> None:
    well = machine.tells
    machine.tells = replace(well, gpus=None, driver_problem="nvidia-smi hangs")
    first = look(node, machine)
    assert kinds() == [], "it may be busy once"
    look(node, machine)
    assert kinds() == ["driver"]
    assert first <= Finding.objects.get().since < first + MINUTE
    node.refresh_from_db()
    assert node.drained
    machine.tells = well
    for number in range(3):
        assert kinds() == ["driver"], number
        look(node, machine)
    node.refresh_from_db()
    assert (kinds(), node.drained) == ([], False)
    assert Finding.objects.get().cleared_by is None


def test_seen_again_it_is_the_same_finding(node: Node, machine: Machine) -> None:
    machine.tells = replace(machine.tells, gpus=machine.cards[:3])
    first = look(node, machine)
    last = look(node, machine)
    one = Finding.objects.get()
    assert one.kind == "gpu-missing"
    assert first <= one.since < last <= one.seen_at


def test_memory_errors_are_told_once_however_often_they_are_counted(
    node: Node, machine: Machine, admin: User
) -> None:
    sick = (replace(machine.cards[0], ecc_uncorrected=3), *machine.cards[1:])
    machine.tells = replace(machine.tells, gpus=sick)
    look(node, machine)
    assert kinds() == ["ecc"]
    checkup.findings.clear(finding=Finding.objects.get(), actor=admin, now=NOW)
    look(node, machine)
    assert kinds() == []


def test_what_cannot_be_looked_at_is_said_and_nothing_concluded(
    node: Node, machine: Machine
) -> None:
    machine.error = NodeError("It said no.")
    look(node, machine)
    assert Checkup.objects.get().limits == ["Its health could not be looked at: It said no."]
    assert kinds() == []
    machine.error = None
    machine.tells = replace(machine.tells, kernel_log=KernelLog(0, why="Permission denied"))
    look(node, machine)
    (limit,) = Checkup.objects.get().limits
    assert limit.startswith("This account cannot read the kernel's log (Permission denied)")


@pytest.mark.parametrize(("memory", "told"), [(4096, True), (None, True), (50, False)])
def test_a_process_of_no_job_is_told_with_its_owner(
    node: Node, machine: Machine, memory: int | None, told: bool
) -> None:
    process: dict[str, Any] = {
        "pid": 4711, "memory_mib": memory, "run_key": None, "user": "bob", "command": "python x.py",
        "age_s": 7200.0,
    }  # fmt: skip
    for _ in range(12):
        now = NOW + (machine.looks + 1) * MINUTE
        node.gpus.update(sampled_at=now)
        node.gpus.filter(index=3).update(processes=[process])
        look(node, machine)
    assert kinds() == ["stray"] * told
    if told:
        one = Finding.objects.get()
        assert one.gpu == node.gpus.get(index=3)
        assert one.text.startswith("Process 4711 (python x.py) of bob, for 2 h")


@pytest.mark.parametrize(
    ("guards", "memory", "run_key", "out"),
    [(True, 4096, None, True), (False, 4096, None, False), (True, 900, None, False),
     (True, 4096, "j1.a1.n0.00000000", False), (True, None, None, False)],
)  # fmt: skip
def test_where_it_is_wanted_such_a_gpu_gets_no_jobs_until_it_is_gone(
    node: Node, machine: Machine, guards: bool, memory: int | None, run_key: str | None, out: bool
) -> None:
    Node.objects.update(guards_gpus=guards)
    process = {"pid": 4711, "memory_mib": memory, "run_key": run_key, "user": "", "command": "x"}
    node.gpus.filter(index=3).update(processes=[process], sampled_at=NOW + MINUTE)
    look(node, machine)
    gpu = node.gpus.get(index=3)
    assert (gpu.out_of_service, kinds()) == (out, ["occupied"] * out)
    for _ in range(3):
        node.gpus.update(processes=[], sampled_at=NOW + (machine.looks + 1) * MINUTE)
        look(node, machine)
    gpu.refresh_from_db()
    assert (gpu.out_of_service, kinds()) == (False, [])


def test_a_gpu_that_is_leased_and_not_used(
    node: Node, machine: Machine, alice: User, project: Project
) -> None:
    cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    for _ in range(62):
        node.gpus.update(sampled_at=NOW + (machine.looks + 1) * MINUTE)
        look(node, machine)
    assert kinds() == ["unused"]


def test_nonsense_from_a_node_does_no_harm(node: Node, machine: Machine) -> None:
    machine.tells = replace(machine.tells, boot_id="x" * 500, kernel_log=KernelLog(2**80))
    look(node, machine)
    kept = Checkup.objects.get()
    assert (len(kept.log_boot_id), kept.log_stamp_us) == (64, checkup.LAST_STAMP)


def test_a_real_node_is_asked(lab: Lab) -> None:
    """The engine, the shepherd and the decoding in between, on this machine."""
    node = lab.node("gpu-1", gpus=0)
    spool = lab.directory / "gpu-1"
    spool.mkdir()
    (spool / "kmsg").write_text("4,1,100,-;nothing\n")
    checkup.check(node_id=node.pk, now=NOW)
    kept = Checkup.objects.get()
    assert (kept.limits, bool(kept.log_boot_id), kept.answered_at is not None) == ([], True, True)
    assert not Event.objects.filter(node=node, kind="finding", detail__contains="GPU").exists()
