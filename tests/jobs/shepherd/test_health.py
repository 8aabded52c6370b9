"""What a node tells of its health: the kernel's log, GPUs, disks, mounts, a program's word."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from jobs.shepherd.gpu_health import temperature_margins
from jobs.shepherd.health import memory_stalled, mount_points
from jobs.shepherd.kernel_log import printed
from tests.jobs.shepherd.node import Node

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"
OLD = """GPU 00000000:07:00.0
    Temperature
        GPU Current Temp                  : 84 C
        GPU T.Limit Temp                  : N/A
        GPU Shutdown Temp                 : 92 C
        GPU Slowdown Temp                 : 89 C
        GPU Max Operating Temp            : 85 C
        Memory Current Temp               : 70 C
"""
NEW = """GPU 00000000:0F:00.0
    Temperature
        GPU Current Temp                  : 33 C
        GPU T.Limit Temp                  : 53 C
        GPU Shutdown T.Limit Temp         : -8 C
        GPU Slowdown T.Limit Temp         : -2 C
        Memory Current Temp               : 41 C
"""
STAND_IN = r"""#!/bin/sh
case "$*" in
*--query-gpu=index,uuid,pci*) cat "$0.cards" ;;
*--query-remapped-rows*) cat "$0.rows" ;;
*clocks_event_reasons*) echo 'Field "x" is not a valid field to query.'; exit 2 ;;
*clocks_throttle_reasons*) cat "$0.slow" ;;
"-q -d TEMPERATURE") cat "$0.heat" ;;
*) echo "unexpected: $*"; exit 2 ;;
esac
"""


@pytest.fixture
def cards(node: Node, tmp_path: Path) -> Path:
    """The stand-in for `nvidia-smi`, and the beginning of the names of what it says."""
    place = tmp_path / "bin"
    place.mkdir()
    node.environment["PATH"] = f"{place}:/usr/local/bin:/usr/bin:/bin"
    program = place / "nvidia-smi"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    told = {
        "cards": f"0, {A}, 00000000:07:00.0, 84, 2\n"
        f"1, {B}, 00000000:0F:00.0, [N/A], [Not Supported]",
        "rows": f"{A}, Yes, No\n{B}, [N/A], [N/A]",
        "slow": f"{A}, Not Active, Active\n{B}, Not Active, [N/A]",
        "heat": OLD + NEW,
    }
    for name, text in told.items():
        place.joinpath(f"nvidia-smi.{name}").write_text(f"{text}\n")
    return program


@pytest.fixture(autouse=True)
def log(node: Node) -> Path:
    """The node's own kernel log, with nothing in it."""
    path = node.spool / "kmsg"
    path.write_text("")
    return path


def test_cards_tell_what_they_know(node: Node, cards: Path) -> None:
    answer = node.call("health")
    assert answer["driver_problem"] == ""
    assert answer["gpus"] == [
        {
            "index": 0, "uuid": A, "pci_bus_id": "00000000:07:00.0", "temperature_c": 84,
            "ecc_uncorrected": 2, "rows_pending": True, "rows_failed": False, "margin_c": 5,
            "slowed": False, "slowed_by_heat": True,
        },
        {
            "index": 1, "uuid": B, "pci_bus_id": "00000000:0F:00.0", "temperature_c": None,
            "ecc_uncorrected": None, "rows_pending": None, "rows_failed": None, "margin_c": 55,
            "slowed": False, "slowed_by_heat": None,
        },
    ]  # fmt: skip


def test_an_old_driver_tells_the_rest(node: Node, cards: Path) -> None:
    cards.write_text(STAND_IN.replace('cat "$0.rows"', "exit 1").replace('cat "$0.heat"', "exit 1"))
    first = node.call("health")["gpus"][0]
    assert (first["ecc_uncorrected"], first["slowed_by_heat"], first["margin_c"]) == (2, True, None)
    assert "rows_pending" not in first


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("sleep 600", "nvidia-smi did not answer within 10 s"),
        ("echo Driver/library version mismatch; exit 18", "Driver/library version mismatch"),
    ],
)
def test_a_driver_that_is_sick(node: Node, cards: Path, script: str, problem: str) -> None:
    """It is asked no further: each question might leave a process that cannot be killed."""
    cards.write_text(f'#!/bin/sh\necho >> "$0.asked"\n{script}\n')
    answer = node.call("health")
    assert answer["gpus"] is None
    assert problem in answer["driver_problem"]
    assert cards.with_name("nvidia-smi.asked").read_text() == "\n"


def test_a_machine_without_cards(node: Node) -> None:
    node.environment["PATH"] = "/nowhere"
    answer = node.call("health")
    assert (answer["gpus"], answer["driver_problem"], answer["check"]) == ([], "", None)
    assert {disk["path"] for disk in answer["disks"]} == {str(node.spool), "/tmp"}
    assert all(disk["total_mib"] >= disk["free_mib"] > 0 for disk in answer["disks"])
    assert answer["boot_id"] == node.call("observe", keys=[])["boot_id"]


LINES = """6,1,100,-;NVRM: Xid (PCI:0000:07:00): 13, old
 SUBSYSTEM=pci
14,2,200,-;NVRM: Xid (PCI:0000:07:00): 79, written by somebody
4,3,300,-;NVRM: Xid (PCI:0000:07:00): 48, new
4,4,400,-;something else
6,nonsense
"""


def asked(node: Node, **known: Any) -> tuple[list[str], int]:
    """The last words of the lines that are told, and the newest stamp."""
    told = node.call("health", **known)["kernel_log"]
    assert told["why"] == ""
    return [line.rpartition(", ")[2] for line in told["lines"]], told["stamp_us"]


def test_only_new_lines_about_gpus_are_told(node: Node, log: Path) -> None:
    log.write_text(LINES)
    boot_id = node.call("observe", keys=[])["boot_id"]
    assert asked(node, log_boot_id=boot_id, log_after_us=100) == (["new"], 400)
    assert asked(node, log_boot_id=boot_id, log_after_us=400) == ([], 400)
    with log.open("a") as stream:
        stream.write("4,5,500,-;NVRM: Xid (PCI:0000:07:00): 79, last\n")
    assert asked(node, log_boot_id=boot_id, log_after_us=400) == (["last"], 500)


def test_after_another_boot_all_of_this_one_is_new(node: Node, log: Path) -> None:
    log.write_text(LINES)
    assert asked(node, log_boot_id="another", log_after_us=10**9) == (["old", "new"], 400)


def test_a_node_that_was_never_asked_tells_of_the_last_hour(node: Node, log: Path) -> None:
    with Path("/proc/uptime").open() as stream:
        now = int(float(stream.read().split()[0]) * 1e6)
    log.write_text(
        "4,1,0,-;NVRM: Xid (PCI:0000:07:00): 79, long ago\n"
        f"4,2,{now},-;NVRM: Xid (PCI:0000:07:00): 79, now\n"
    )
    words, stamp = asked(node)
    assert (words[-1], stamp) == ("now", now)
    assert ("long ago" in words) == (now < 3600 * 1e6)


def test_a_log_that_may_not_be_read_says_why(node: Node, log: Path) -> None:
    log.unlink()
    log.symlink_to(node.spool)
    node.environment["PATH"] = "/nowhere"
    told = node.call("health")["kernel_log"]
    assert (told["lines"], bool(told["why"])) == ([], True)


def test_what_dmesg_prints_is_read_the_same() -> None:
    text = b"<4>[   12.000345] NVRM: Xid (PCI:0000:07:00): 79, x\n<12>[ 13.0] forged\n<4>[x] y"
    assert list(printed(text)) == [(12_000_345, b"NVRM: Xid (PCI:0000:07:00): 79, x")]


def test_mounts(node: Node, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc")
    paths = ["/proc", str(tmp_path / "link"), str(tmp_path), "/nowhere"]
    told = {one["path"]: one for one in node.call("health", mounts=paths)["mounts"]}
    assert [told[path].get("mounted") for path in paths] == [True, True, False, None]
    assert told["/nowhere"]["error"] == "No such file or directory"


def test_where_something_is_mounted() -> None:
    text = (
        b"22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
        b"23 22 0:5 /data /mnt/with\\040space rw - nfs server:/x rw\nshort\n"
    )
    assert mount_points(text) == {"/", "/mnt/with space"}


@pytest.mark.parametrize(
    ("script", "well", "said"),
    [
        ("echo first; echo all is well", True, "all is well"),
        ("echo first; echo no InfiniBand >&2; exit 3", False, "no InfiniBand"),
        ("exit 3", False, "check failed with code 3: "),
    ],
)
def test_an_administrators_program(
    node: Node, tmp_path: Path, script: str, well: bool, said: str
) -> None:
    program = tmp_path / "check"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert node.call("health", check=str(program))["check"] == {"well": well, "said": said}


def test_a_program_that_is_not_there(node: Node) -> None:
    told = node.call("health", check="/nowhere/check")["check"]
    assert (told["well"], "not there" in told["said"]) == (False, True)


def test_how_far_from_being_slowed_down() -> None:
    assert temperature_margins(OLD + NEW) == {"00000000:07:00.0": 5, "00000000:0f:00.0": 55}
    assert temperature_margins("GPU 00000000:07:00.0\n        GPU Current Temp : N/A\n") == {}


def test_how_long_nothing_ran_for_want_of_memory() -> None:
    text = b"some avg10=9.00 avg60=8.00 avg300=1 total=1\nfull avg10=1.00 avg60=2.50 total=1\n"
    assert memory_stalled(text) == 2.5
    assert memory_stalled(b"") is None


def test_the_age_of_a_process_on_a_gpu_is_told(node: Node, cards: Path) -> None:
    cards.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *compute-apps*) echo "{A}, {os.getpid()}, 7" ;; '
        f'*) echo "0, {A}, 1, 2, 3, 4" ;; esac\n'
    )
    (sample,) = node.call("observe", keys=[], gpus=True)["gpus"]
    assert sample["processes"][0]["age_s"] > 0
