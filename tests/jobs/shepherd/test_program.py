"""The one file: old enough syntax, nothing but the standard library, quick to start again."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import shepherd
from tests.jobs.shepherd.node import Node

SOURCES = sorted(Path(shepherd.__file__).parent.glob("*.py"))
ON_THE_NODE = [path for path in SOURCES if path.name != "__init__.py"]


@pytest.mark.parametrize("path", ON_THE_NODE, ids=lambda path: path.stem)
def test_python_3_6_can_read_it(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("path", ON_THE_NODE, ids=lambda path: path.stem)
def test_it_needs_only_the_standard_library(path: Path) -> None:
    for item in ast.walk(ast.parse(path.read_text())):
        if isinstance(item, ast.Import):
            assert not {name.name for name in item.names} - sys.stdlib_module_names
        elif isinstance(item, ast.ImportFrom) and not item.level:
            assert str(item.module).partition(".")[0] in sys.stdlib_module_names


def test_the_file_is_named_by_its_content() -> None:
    assert f"shepherd-{shepherd.VERSION}.py" == shepherd.FILENAME
    compile(shepherd.PROGRAM, shepherd.FILENAME, "exec")


def test_it_prints_its_own_source(node: Node) -> None:
    printed = subprocess.run(
        [sys.executable, "-I", "-S", str(node.program), "source"],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.decode()
    for path in ON_THE_NODE:
        assert path.stem == "loader" or path.read_text() in printed


def test_what_it_compiles_is_kept_and_private(node: Node) -> None:
    node.call("observe", keys=[])
    kept = [path for path in node.spool.iterdir() if path.name.startswith(shepherd.FILENAME + ".")]
    assert len(kept) == 1
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600
    before = kept[0].stat().st_mtime_ns
    node.call("observe", keys=[])
    assert kept[0].stat().st_mtime_ns == before


def test_a_damaged_compiled_form_is_made_anew(node: Node) -> None:
    node.call("observe", keys=[])
    (kept,) = (
        path for path in node.spool.iterdir() if path.name.startswith(shepherd.FILENAME + ".")
    )
    kept.write_bytes(kept.read_bytes()[:1000])
    assert node.call("observe", keys=[])["runs"] == []


def test_an_observed_node_gives_all_fields(node: Node) -> None:
    answer = node.call("observe", keys=["j1.a1.n0"], system=True)
    assert set(answer) == {
        "ok", "boot_id", "at", "clock", "runs", "checkpoints", "gpus", "system", "problems",
    }  # fmt: skip
    assert answer["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert answer["gpus"] is None
    assert answer["runs"][0]["phase"] == "absent"
    assert 0 < answer["system"]["memory_available_mib"] <= answer["system"]["memory_total_mib"]
    assert 0 < answer["system"]["disk_free_mib"] <= answer["system"]["disk_total_mib"]


def test_run_directories_are_private(node: Node) -> None:
    old = os.umask(0)
    try:
        node.launch("umask", environment={"TOKEN": "secret"})
    finally:
        os.umask(old)
    node.ended()
    assert stat.S_IMODE(node.run_dir().stat().st_mode) == 0o700
    for path in node.run_dir().iterdir():
        assert path.is_symlink() or not stat.S_IMODE(path.stat().st_mode) & 0o077, path
