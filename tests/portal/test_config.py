"""Settings from the environment say what is wrong with them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal import config


def test_a_wrong_flag_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_PRACTICE", "perhaps")
    with pytest.raises(ImproperlyConfigured, match=r"CARREL_PRACTICE.*perhaps.*1 or 0"):
        config.flag("CARREL_PRACTICE", True)


@pytest.mark.parametrize("value", ["0", "-1", "80a", "8.5"])
def test_a_wrong_number_names_its_variable(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PORT", value)
    with pytest.raises(ImproperlyConfigured, match=r"PORT.*number from 1"):
        config.integer("PORT", 8000, least=1)


def test_a_secret_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    file = tmp_path / "key"
    made = config.secret("CARREL_NO_SUCH_SECRET", file)
    assert config.secret("CARREL_NO_SUCH_SECRET", file) == made
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_unknown_database_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"DATABASE_URL.*mysql.*postgresql://"):
        config.database("mysql://somewhere/carrel", Path("/nowhere"))


def test_a_password_with_signs_in_it_arrives() -> None:
    found = config.database("postgresql://me:a%40b%2Fc@db:5433/carrel", Path("/nowhere"))
    assert (found["USER"], found["PASSWORD"], found["HOST"]) == ("me", "a@b/c", "db")
    assert (found["PORT"], found["NAME"]) == ("5433", "carrel")


def test_commands_find_the_running_port(tmp_path: Path) -> None:
    assert config.running_port(tmp_path) is None
    (tmp_path / "run.lock").write_text("http://127.0.0.1:8123 (process 12)\n")
    assert config.running_port(tmp_path) == 8123
