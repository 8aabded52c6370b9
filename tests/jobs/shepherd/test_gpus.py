"""GPUs, as a stand-in for `nvidia-smi` on the PATH tells of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.jobs.shepherd.node import Node, eventually

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"
LISTING = f"""GPU 0: NVIDIA A100-SXM4-80GB (UUID: {A})
  MIG 3g.40gb     Device  0: (UUID: MIG-11111111-0000-0000-0000-000000000000)
  MIG 1g.10gb+me  Device  1: (UUID: MIG-22222222-0000-0000-0000-000000000000)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: {B})
"""
DETAILS = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:07:00.0">
		<mig_devices>
			<mig_device>
				<index>0</index>
				<gpu_instance_id>1</gpu_instance_id>
				<fb_memory_usage>
					<total>40192 MiB</total>
					<used>25 MiB</used>
				</fb_memory_usage>
			</mig_device>
			<mig_device>
				<index>1</index>
				<gpu_instance_id>9</gpu_instance_id>
				<fb_memory_usage>
					<total>9728 MiB</total>
				</fb_memory_usage>
			</mig_device>
		</mig_devices>
		<fb_memory_usage>
			<total>81920 MiB</total>
		</fb_memory_usage>
	</gpu>
	<gpu id="00000000:0F:00.0">
		<mig_devices>
			None
		</mig_devices>
		<fb_memory_usage>
			<total>81920 MiB</total>
		</fb_memory_usage>
	</gpu>
</nvidia_smi_log>
"""
STAND_IN = r"""#!/bin/sh
case "$*" in
*--query-gpu=index,uuid,memory.used*) cat "$0.sample" ;;
*--query-compute-apps*) cat "$0.apps" ;;
*--query-gpu=index,uuid,name*) cat "$0.cards" ;;
*mig.mode.current*) cat "$0.modes" ;;
-L) cat "$0.list" ;;
"-q -x") cat "$0.xml" ;;
"topo -m") printf '\t\033[4mGPU0\tGPU1\033[0m\nGPU0\t X \tNV12\n' ;;
*) echo "unexpected: $*"; exit 2 ;;
esac
"""


class Cards:
    """A directory on the PATH with the stand-in and what it says."""

    def __init__(self, place: Path) -> None:
        self.program = place / "nvidia-smi"
        place.mkdir()
        self.becomes(STAND_IN)
        self.say(
            "sample", f"0, {A}, 1024, 97, 61, 312.55\n1, {B}, [N/A], [N/A], N/A, [Not Supported]"
        )
        self.say("apps", "")
        model = "NVIDIA A100-SXM4-80GB, 81920"
        self.say(
            "cards",
            f"0, {A}, {model}, 00000000:07:00.0, 535.1\n1, {B}, {model}, 00000000:0F:00.0, 535.1",
        )
        self.say("modes", f"{A}, Enabled\n{B}, [N/A]")
        self.say("list", LISTING)
        self.say("xml", DETAILS)

    def becomes(self, script: str) -> None:
        self.program.write_text(script)
        self.program.chmod(0o755)

    def say(self, what: str, text: str) -> None:
        self.program.with_name(f"nvidia-smi.{what}").write_text(text + "\n")


@pytest.fixture
def cards(node: Node, tmp_path: Path) -> Cards:
    node.environment["PATH"] = f"{tmp_path / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return Cards(tmp_path / "bin")


def test_samples(node: Node, cards: Cards) -> None:
    answer = node.call("observe", keys=[], gpus=True)
    assert answer["problems"] == []
    assert answer["gpus"] == [
        {
            "index": 0, "uuid": A, "memory_used_mib": 1024, "utilization_pct": 97,
            "temperature_c": 61, "power_w": 312.55, "processes": [],
        },
        {
            "index": 1, "uuid": B, "memory_used_mib": None, "utilization_pct": None,
            "temperature_c": None, "power_w": None, "processes": [],
        },
    ]  # fmt: skip


def test_processes_are_told_by_their_run(node: Node, cards: Cards) -> None:
    node.launch("echo $$ $(env -i bash -c 'sleep 600 </dev/null >/dev/null & echo $!'); sleep 600")
    node.says(b"\n")
    marked, bare = (int(word) for word in node.log().split())
    lines = [f"{A}, {marked}, 500", f"{B}, {bare}, [N/A]", f"{B}, {os.getpid()}, 7"]
    cards.say("apps", "\n".join(lines))
    first, second = node.call("observe", keys=["j1.a1.n0"], gpus=True)["gpus"]
    assert [(one["pid"], one["run_key"], one["memory_mib"]) for one in first["processes"]] == [
        (marked, "j1.a1.n0", 500)
    ]
    assert first["processes"][0]["command"] == "bash script"
    assert [(one["pid"], one["run_key"], one["memory_mib"]) for one in second["processes"]] == [
        (bare, "j1.a1.n0", None),
        (os.getpid(), None, 7),
    ]
    assert second["processes"][0]["user"] == second["processes"][1]["user"] is not None


def test_a_hanging_driver_is_a_problem_and_not_a_hang(node: Node, cards: Cards) -> None:
    cards.becomes("#!/bin/sh\ntrap '' TERM\nsleep 600\n")
    answer = node.call("observe", keys=["j1.a1.n0"], gpus=True, system=True)
    assert answer["gpus"] is None
    assert "nvidia-smi did not answer within 5 s" in answer["problems"]
    assert answer["runs"][0]["phase"] == "absent"
    assert answer["system"]["memory_total_mib"] > 0
    left = f"/proc/*/cwd {cards.program}"
    eventually(lambda: not _running(cards.program), left)


def _running(program: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and bytes(program) in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_a_failing_driver_is_told_in_its_own_words(node: Node, cards: Cards) -> None:
    cards.becomes(
        "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"
    )
    answer = node.call("observe", keys=[], gpus=True)
    assert answer["gpus"] is None
    assert (
        "code 18: Failed to initialize NVML: Driver/library version mismatch"
        in answer["problems"][0]
    )


def test_probe_tells_of_cards_and_mig(node: Node, cards: Cards) -> None:
    answer = node.call("probe")
    first, second = answer["gpus"]
    assert (first["index"], first["uuid"], first["model"]) == (0, A, "NVIDIA A100-SXM4-80GB")
    assert (first["memory_mib"], first["pci_bus_id"]) == (81920, "00000000:07:00.0")
    assert (first["mig_mode"], second["mig_mode"]) == (True, None)
    assert first["mig"] == [
        {"index": 0, "name": "3g.40gb", "memory_mib": 40_192,
         "uuid": "MIG-11111111-0000-0000-0000-000000000000"},
        {"index": 1, "name": "1g.10gb+me", "memory_mib": 9728,
         "uuid": "MIG-22222222-0000-0000-0000-000000000000"},
    ]  # fmt: skip
    assert second["mig"] == []
    assert answer["driver"] == "535.1"
    assert answer["topology"].splitlines()[0] == "\tGPU0\tGPU1"
    assert answer["problems"] == []


def test_instances_of_old_drivers_and_without_their_sizes(node: Node, cards: Cards) -> None:
    """Before R470 an instance was named by its card's UUID and two numbers."""
    cards.say("list", f"GPU 0: A100-SXM4-40GB (UUID: {A})\n"
                      f"  MIG 1c.3g.20gb Device 0: (UUID: MIG-{A}/1/0)")  # fmt: skip
    cards.say("xml", "Unable to determine the device handle")
    assert node.call("probe")["gpus"][0]["mig"] == [
        {"index": 0, "name": "1c.3g.20gb", "memory_mib": None, "uuid": f"MIG-{A}/1/0"}
    ]


def test_without_instances_nothing_long_is_asked(node: Node, cards: Cards) -> None:
    cards.say("list", f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {A})")
    cards.becomes(STAND_IN.replace('cat "$0.xml"', 'touch "$0.asked"'))
    assert [card["mig"] for card in node.call("probe")["gpus"]] == [[], []]
    assert not cards.program.with_name("nvidia-smi.asked").exists()


def test_a_machine_without_cards(node: Node) -> None:
    node.environment["PATH"] = "/nowhere"
    answer = node.call("probe")
    assert answer["gpus"] == []
    assert answer["problems"] == ["no nvidia-smi on the PATH: a node without NVIDIA GPUs"]
    assert answer["cpus"] == len(os.sched_getaffinity(0))
    assert answer["memory_mib"] > 0
    assert answer["hostname"] == os.uname().nodename
    observed = node.call("observe", keys=[], gpus=True)
    assert (observed["gpus"], observed["problems"]) == ([], [])
