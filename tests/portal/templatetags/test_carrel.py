"""Units, ages and names as pages show them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone

from jobs.lifecycle import State
from portal.templatetags import carrel


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "A100 80GB MIG 1g.10gb"),
        ("NVIDIA A100 80GB PCIe MIG 1g.10gb", "A100 80GB MIG 1g.10gb"),
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_gpu_models(full: str, short: str) -> None:
    assert carrel.gpu_model(full) == short


@pytest.mark.parametrize(
    ("mib", "text"),
    [(None, "\N{EN DASH}"), (0, "0 MiB"), (512, "512 MiB"), (1024, "1 GiB"), (81_559, "79.6 GiB"),
     (256 * 1024, "256 GiB"), (1_572_864, "1.5 TiB"), (5e9, "4,768 TiB")],
)  # fmt: skip
def test_memory(mib: float | None, text: str) -> None:
    assert carrel.mib(mib) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB")])
def test_sizes(size: int, text: str) -> None:
    assert carrel.size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "\N{EN DASH}"), (-1, "0 s"), (0, "0 s"), (59.9, "59 s"), (65, "1 min 05 s"),
     (3725, "1 h 02 min"), (187_200, "2 d 4 h"), (timedelta(minutes=2), "2 min 00 s")],
)  # fmt: skip
def test_durations(seconds: float | timedelta | None, text: str) -> None:
    assert carrel.duration(seconds) == text


def test_walltimes_are_slurms() -> None:
    assert carrel.walltime(7384) == "02:03:04"
    assert carrel.walltime(93_784) == "1-02:03:04"


@pytest.mark.parametrize(
    ("back", "text"),
    [(0, "now"), (5, "5 s ago"), (200, "3 min ago"), (7_300, "2 h ago"), (200_000, "2 d ago"),
     (-200, "in 3 min")],
)  # fmt: skip
def test_ages(back: int, text: str) -> None:
    shown = carrel.ago(timezone.now() - timedelta(seconds=back))
    assert f">{text}</time>" in shown


def test_the_end_of_a_time_of_many_days_has_its_date_today_too() -> None:
    now = timezone.now()
    clock = f"{timezone.localtime(now):%H:%M}"
    assert f", {clock}</time>" in carrel.dated(now)
    assert f">{clock}:" in carrel.at(now)


def test_an_exit_in_words() -> None:
    assert carrel.exit_words(0) == "exit code 0"
    assert carrel.exit_words(None, 9) == "ended by SIGKILL (9)"
    assert carrel.exit_words(None, 34) == "ended by SIGRTMIN (34)"
    assert carrel.exit_words(None, 63) == "ended by signal 63"
    assert carrel.exit_words(None) == ""


@pytest.mark.parametrize("state", State)
def test_each_state_has_words_and_a_colour(state: State) -> None:
    badge = carrel.state(state)
    assert carrel.state_words(state) in badge
    assert carrel.state_words(state) != state
    css = (Path(settings.BASE_DIR) / "static/carrel/parts.css").read_text()
    assert f".state-{state.lower().replace('_', '-')}" in css


def test_a_host_keys_fingerprint() -> None:
    # As `ssh-keygen -lf` says it.
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS"
    assert carrel.fingerprint(key) == "SHA256:qH8baHrA5X0qCBovKCZyM02Q7TFtK4GMqVgOo4TZJAE"
    assert carrel.fingerprint("nonsense") == "nonsense"


def test_a_query_string_changes_one_thing() -> None:
    request = RequestFactory().get("/?state=up&page=3&q=a%26b")
    context = Context({"request": request})
    assert Template("{% query page=2 %}").render(context) == "?state=up&amp;page=2&amp;q=a%26b"
    assert Template("{% query page=None state='' %}").render(context) == "?q=a%26b"
