"""The lab's files, before any server has started."""

from __future__ import annotations

import stat
from pathlib import Path

from jobs.practice import machines


def test_describing_twice_gives_the_same(tmp_path: Path) -> None:
    first = machines.describe(tmp_path)
    assert machines.describe(tmp_path) == first
    assert [node.name for node in first] == ["practice-1", "practice-2", "practice-3"]
    assert len({node.port for node in first}) == len({node.host_key for node in first}) == 3


def test_gpus_differ_everywhere_but_in_time(tmp_path: Path) -> None:
    def uuids(directory: Path) -> list[str]:
        lab = machines.prepare(directory)
        return [gpu["uuid"] for machine in lab for gpu in machines.gpus(machine)]

    here = uuids(tmp_path / "here")
    assert uuids(tmp_path / "here") == here
    assert len(set(here) | set(uuids(tmp_path / "there"))) == 24


def test_every_gpu_says_that_it_is_simulated(tmp_path: Path) -> None:
    for machine in machines.prepare(tmp_path):
        assert all("(simulated)" in gpu["name"] for gpu in machines.gpus(machine))


def test_private_keys_are_for_us_alone(tmp_path: Path) -> None:
    for machine in machines.prepare(tmp_path):
        assert stat.S_IMODE(machine.host_key_file.stat().st_mode) == 0o600


def test_a_changed_program_reaches_the_machines(tmp_path: Path) -> None:
    program = machines.prepare(tmp_path)[0].bin / "nvidia-smi"
    program.write_text("an older one")
    machines.prepare(tmp_path)
    assert "query-gpu" in program.read_text()
    assert stat.S_IMODE(program.stat().st_mode) == 0o755


def test_the_sample_script_asks_for_one_gpu_and_quotes_its_path(tmp_path: Path) -> None:
    text = machines.sample_script(tmp_path / "it's here", seconds=5)
    assert "#SBATCH --gres=gpu:1\n" in text
    assert "'\"'\"'s here" in text
    assert text.endswith("--seconds 5\n")
