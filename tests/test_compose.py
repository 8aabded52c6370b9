"""compose.yaml, docs/settings.md and portal/settings.py name the same variables."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from portal.supervisor import parts

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = ROOT / "compose.yaml"
OVERRIDES = [
    ROOT / "deploy" / name for name in ("try/compose.yaml", "local/compose.yaml", "local/try.yaml")
]
READERS = {"text", "flag", "words", "integer", "secret"}
CARRELS_OWN = ("web", "worker", "beat", "migrate")
BY_OTHERS = {"POSTGRES_PASSWORD", "PGPASSWORD", "WEB_CONCURRENCY", "HEALTHZ_URL", "PIP_INDEX_URL"}
"""Read by PostgreSQL, its client, uvicorn, the health check and pip."""


def read_by_settings() -> set[str]:
    """The variables that portal/settings.py asks portal/config.py for."""
    calls = (
        node
        for node in ast.walk(ast.parse((ROOT / "portal/settings.py").read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr in READERS) == ("config", True)
    )
    return {ast.literal_eval(call.args[0]) for call in calls}


def documented(heading: str) -> set[str]:
    """The variables in the first column of the table under a heading of docs/settings.md."""
    text = (ROOT / "docs/settings.md").read_text()
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    [table] = [part for part in section if part.startswith(heading)]
    return set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


def test_every_variable_of_the_settings_is_documented_and_no_other() -> None:
    assert len(read_by_settings()) > 8
    assert documented("Read by Carrel") == read_by_settings()


def test_every_variable_of_the_containers_is_documented_and_no_other() -> None:
    assert documented("Read by `compose.yaml`") == BY_OTHERS


def test_compose_names_no_variable_that_nobody_reads(compose: dict[str, Any]) -> None:
    asked_for = set(re.findall(r"(?<!\$)\$\{?(\w+)", COMPOSE.read_text()))
    given = {name for part in CARRELS_OWN for name in compose["services"][part]["environment"]}
    assert (asked_for | given) - read_by_settings() <= BY_OTHERS


def test_the_password_has_no_default() -> None:
    uses = re.findall(r"\$\{POSTGRES_PASSWORD[^}]*\}", COMPOSE.read_text())
    assert uses
    assert all(use.startswith("${POSTGRES_PASSWORD:?") for use in uses)


def test_only_the_web_is_published_and_on_loopback_only(compose: dict[str, Any]) -> None:
    published = {
        name: one["ports"] for name, one in compose["services"].items() if one.get("ports")
    }
    assert list(published) == ["web"]
    assert all(port.startswith("127.0.0.1:") for port in published["web"])


def test_all_of_carrel_sees_one_data_directory(compose: dict[str, Any]) -> None:
    volumes = [compose["services"][part]["volumes"] for part in CARRELS_OWN]
    assert volumes == [["data:/var/lib/carrel"]] * len(CARRELS_OWN)
    assert "CARREL_DATA=/var/lib/carrel" in (ROOT / "deploy/Dockerfile").read_text()


def test_the_worker_is_the_one_of_make_run(compose: dict[str, Any]) -> None:
    ours = compose["services"]["worker"]["command"].split()
    assert set(ours) == {"celery", *parts.worker().command[3:]}


def test_overrides_change_only_services_that_exist(compose: dict[str, Any]) -> None:
    known = set(compose["services"])
    for file in OVERRIDES:
        services = yaml.safe_load(file.read_text())["services"]
        assert set(services) <= known | {"node"}, file
        known |= set(services)


def _programs() -> list[list[str]]:
    v2 = ["docker", "compose"]
    asked = shutil.which("docker") and subprocess.run(
        [*v2, "version"], capture_output=True, check=False
    )
    found = [v2] if asked and asked.returncode == 0 else []
    return found + ([["docker-compose"]] if shutil.which("docker-compose") else [])


def _config(program: list[str], *files: Path, **environment: str) -> subprocess.CompletedProcess:
    words = [word for file in files for word in ("-f", str(file))]
    return subprocess.run(
        [*program, *words, "config"],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.skipif(not _programs(), reason="neither `docker compose` nor docker-compose is here")
def test_compose_itself_reads_all_files() -> None:
    for program in _programs():
        read = _config(program, COMPOSE, *OVERRIDES, POSTGRES_PASSWORD="a$b/@:%")
        assert read.returncode == 0, read.stderr
        assert yaml.safe_load(read.stdout)["services"]["web"]["environment"]["PORT"] == "8000"


@pytest.mark.skipif(not _programs(), reason="neither `docker compose` nor docker-compose is here")
def test_without_a_password_compose_says_what_to_do() -> None:
    if (ROOT / ".env").exists():
        pytest.skip("this tree has a .env, which would give it")
    for program in _programs():
        read = _config(program, COMPOSE)
        assert read.returncode != 0
        assert "POSTGRES_PASSWORD is not set, see deploy/env.example" in read.stderr
