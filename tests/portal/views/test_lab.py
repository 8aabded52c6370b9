"""The page of settings, the terms of partitions and what is charged."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.bands import Band
from jobs.scheduler.policy import Order
from portal.actions import policy
from portal.models import (
    Accounting,
    DailyUsage,
    Event,
    Gpu,
    GpuModel,
    Node,
    Partition,
    Project,
    SchedulingPolicy,
    UsageBalance,
    User,
)
from portal.queries import days
from tests.portal import cast
from tests.portal.views.forms import everything, filled, last, preview, refused, save

PARTITION, CHARGING = "/settings/partitions/gpu/", "/settings/charging/"
A100 = "NVIDIA A100-SXM4-80GB"
FORMS = (
    "/settings/policy/", PARTITION, CHARGING, "/settings/sharing/", "/settings/sharing/gpu-1/",
)  # fmt: skip


@pytest.mark.parametrize("address", ["/settings/", *FORMS])
def test_only_administrators_may(as_alice: Client, node: Node, address: str) -> None:
    before = everything()
    for answer in (as_alice.get(address), as_alice.post(address, {"save": "1"})):
        assert answer.status_code == 403
        assert "Only administrators" in answer.text
    assert everything() == before


@pytest.mark.parametrize("address", ["/settings/", *FORMS])
def test_looking_changes_nothing(as_admin: Client, node: Node, address: str) -> None:
    before = everything()
    assert as_admin.get(address).status_code == 200
    assert everything() == before


def test_administrators_find_it_in_the_menu(as_admin: Client, as_alice: Client) -> None:
    assert 'href="/settings/"' in as_admin.get("/").text
    assert 'href="/settings/"' not in as_alice.get("/").text


def test_what_is_not_there(as_admin: Client, node: Node) -> None:
    for address in ("/settings/partitions/nope/", "/settings/sharing/no%00pe/"):
        assert as_admin.get(address).status_code == 404


def test_an_empty_lab_says_what_to_do_first(as_admin: Client) -> None:
    page = as_admin.get("/settings/").text
    assert "There is no partition yet." in page
    assert "Nothing was changed yet." in page
    assert "No node has GPUs." in as_admin.get("/settings/sharing/").text


def test_the_page_tells_all_of_it_with_the_last_changes(as_admin: Client, node: Node) -> None:
    save(as_admin, PARTITION, **filled(as_admin, PARTITION, max_walltime="2-0", age="700"))
    save(as_admin, "/lending/", lends="on")
    page = " ".join(as_admin.get("/settings/").text.split())
    for words in (
        "production preempts best-effort", "1 000 000, 700, 100, 1 000 000".replace(" 000", ",000"),
        ">2 d<", "Projects at the top lend each other", "0 of 4 GPUs divided", "Partition set",
        "longest walltime: no limit → 2 d", "points other than usual: none → age: 700",
        "its children lend: no → yes",
    ):  # fmt: skip
        assert words in page, words


def test_many_changes_are_paged(as_admin: Client, admin: User, node: Node) -> None:
    for grace in range(1, 26):
        policy.set_policy(actor=admin, now=cast.NOW, grace_s=float(grace))
    shown = as_admin.get("/settings/").context["events"]
    assert len(shown) == 20
    assert [event.changes["grace_s"][1] for event in shown][:2] == [25.0, 24.0]
    assert len(as_admin.get("/settings/?events=2").context["events"]) == 5
    assert as_admin.get("/settings/?events=nope").status_code == 200
    assert len(as_admin.get(PARTITION).context["events"]) == 0, "those of others are not here"


def test_the_query_count_does_not_grow(as_admin: Client, node: Node) -> None:
    def queries(address: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            assert as_admin.get(address).status_code == 200
        return len(seen)

    few = [queries(address) for address in ("/settings/", "/settings/sharing/")]
    for number in range(6):
        where = Partition.objects.create(name=f"p{number}")
        cast.node(f"n{number}", partition=where)
        GpuModel.objects.create(name=f"model {number}")
    assert [queries(address) for address in ("/settings/", "/settings/sharing/")] == few


def test_a_partition_is_set(as_admin: Client, node: Node) -> None:
    given = filled(
        as_admin, PARTITION, default_band="production", allowed_bands=["batch", "production"],
        default_walltime="30", max_walltime="2-12", fair_share="10", max_age="0.5", nice="0",
    )  # fmt: skip
    assert save(as_admin, PARTITION, **given)["Location"] == "/settings/"
    row = Partition.objects.get()
    assert (row.default_band, row.allowed_bands) == ("production", ["production", "batch"])
    assert (row.default_walltime_s, row.max_walltime_s) == (1800, 216_000)
    assert row.priority_weights == {"fair_share": 10.0, "nice": 0.0, "max_age_s": 43_200.0}
    page = as_admin.get(PARTITION).text
    for words in ('value="0:30:00"', 'value="2-12:00:00"', 'value="0.5"', "Now 0.5; default 7."):
        assert words in page, words
    every = [band.value for band in Band]
    save(as_admin, PARTITION, **filled(as_admin, PARTITION, allowed_bands=every, max_walltime=""))
    row.refresh_from_db()
    assert (row.allowed_bands, row.max_walltime_s) == (every, None)
    save(as_admin, PARTITION, **filled(as_admin, PARTITION, allowed_bands=[]))
    row.refresh_from_db()
    assert row.allowed_bands is None
    assert "best-effort → all" in as_admin.get(PARTITION).text


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"default_band": ""}, "default_band", "This field is required."),
        ({"default_band": "urgent"}, "default_band", "Select a valid choice"),
        ({"allowed_bands": ["production"]}, "default_band", "batch is not allowed here."),
        ({"allowed_bands": ["\N{OCTOPUS}"]}, "allowed_bands", "Select a valid choice"),
        ({"max_walltime": "soon"}, "max_walltime", "is not a time"),
        ({"max_walltime": "0:00:30"}, "max_walltime", "Give 1 min or more"),
        ({"max_walltime": "-1"}, "max_walltime", "Leave it empty"),
        ({"max_walltime": "999999-0"}, "max_walltime", "Must be between a second and"),
        ({"default_walltime": "\N{OCTOPUS}"}, "default_walltime", "is not a time"),
        (
            {"default_walltime": "2-0", "max_walltime": "1-0"},
            "default_walltime", "It is longer than the longest.",
        ),
        ({"fair_share": "-1"}, "fair_share", "Give 0 or more."),
        ({"fair_share": "nan"}, "fair_share", "Enter a number."),
        ({"age": "1e300"}, "age", "Give 1,000,000,000 or less."),
        ({"age": ""}, "age", "This field is required."),
        ({"size": "many"}, "size", "Enter a number."),
        ({"nice": "inf"}, "nice", "Enter a number."),
        ({"max_age": "0"}, "max_age", "Give 0.000012 or more."),
        ({"max_age": "1e12"}, "max_age", "Give 3,650 or less."),
    ],
)  # fmt: skip
def test_what_are_no_terms_of_a_partition_is_refused_by_field(
    as_admin: Client, node: Node, given: dict[str, Any], field: str, message: str
) -> None:
    found = refused(as_admin, PARTITION, **filled(as_admin, PARTITION) | given)
    assert list(found) == [field]
    assert message in found[field][0]


def test_that_points_decide_nothing_is_told_where_they_are_set(
    as_admin: Client, node: Node
) -> None:
    sentence = "jobs do not go by priority: points decide nothing."
    assert sentence not in as_admin.get(PARTITION).text
    SchedulingPolicy.objects.create(order=Order.SUBMISSION)
    assert sentence in as_admin.get(PARTITION).text


def test_a_preview_names_waiting_jobs_beyond_the_new_limits(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    other = Partition.objects.create(name="other")
    cast.job(alice, project, name="long", walltime_s=7200, held=True)
    cast.job(alice, project, name="short", walltime_s=600, held=True)
    cast.job(alice, project, name="urgent", band=Band.PRODUCTION, walltime_s=600, held=True)
    cast.job(alice, project, name="elsewhere", walltime_s=7200, partition=other, held=True)
    given = filled(as_admin, PARTITION, max_walltime="1:00:00", allowed_bands=["batch"])
    shown = preview(as_admin, PARTITION, **given)
    assert [hit.job.name for hit in shown.context["beyond"].hits] == ["long", "urgent"]
    assert "These 2 waiting jobs would be beyond the new limits" in shown.text
    assert "It asks for 2 h; the longest would be 1 h." in shown.text
    assert "Its band is production; allowed would be batch." in shown.text
    save(as_admin, PARTITION, **given)
    again = preview(as_admin, PARTITION, **filled(as_admin, PARTITION, max_walltime="0:59:00"))
    assert again.context["beyond"].count == 0, "who is beyond them already is not news"


def test_other_points_put_another_job_first(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    now = timezone.now()
    small = cast.job(alice, project, name="small", gpus=3, submitted_at=now)
    large = cast.job(alice, project, name="large", gpus=4, submitted_at=now)
    Node.objects.update(drained=True)
    found = preview(as_admin, PARTITION, **filled(as_admin, PARTITION, size="0"))
    assert found.context["preview"].planned.turns == [], "a node that is drained serves nobody"
    Node.objects.update(drained=False)
    shown = preview(as_admin, PARTITION, **filled(as_admin, PARTITION, size="0"))
    (turn,) = shown.context["preview"].planned.turns
    assert (turn.before, turn.after) == (large, small)
    planned = shown.context["preview"].planned
    assert [hit.job for hit in planned.starting.hits] == [small]
    assert [hit.job for hit in planned.kept_waiting.hits] == [large]


def test_what_is_charged_is_set(as_admin: Client, node: Node) -> None:
    Gpu.objects.filter(index=0).update(model="Octo <T4>")
    form = as_admin.get(CHARGING).context["form"]
    (own,) = (name for name, model in form.models.items() if model == A100)
    assert set(form.models.values()) == {A100, "Octo <T4>"}
    given = filled(
        as_admin, CHARGING, gpu_weight="2", cpu_weight="0.1", half_life="14", entry_penalty="5",
        **{own: "3.5"},
    )  # fmt: skip
    shown = preview(as_admin, CHARGING, **given)
    for words in (
        "a GPU: 1 → 2", f"{A100}: none → 3.5", "half-life: 7 d → 14 d",
        "entry penalty: 10.0 % → 5.0 %",
    ):  # fmt: skip
        assert words in shown.text, words
    save(as_admin, CHARGING, **given)
    row = Accounting.objects.get()
    assert (row.gpu_weight, row.cpu_weight, row.memory_gib_weight) == (2.0, 0.1, 0.0025)
    assert (row.half_life_s, row.entry_penalty) == (1_209_600.0, 0.05)
    assert list(GpuModel.objects.values_list("name", "weight")) == [(A100, 3.5)]
    assert last() == ("weight set", {A100: [None, 3.5]})
    save(as_admin, CHARGING, **filled(as_admin, CHARGING) | {own: ""})
    assert not GpuModel.objects.exists(), "as any GPU again"
    assert last() == ("weight set", {A100: [3.5, None]})
    kinds = Event.objects.order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["charging set", "weight set", "weight set"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("gpu_weight", "", "This field is required."),
        ("gpu_weight", "-1", "Give 0 or more."),
        ("gpu_weight", "nan", "Enter a number."),
        ("cpu_weight", "1e300", "Give 1,000,000 or less."),
        ("cpu_weight", "\N{OCTOPUS}", "Enter a number."),
        ("memory_gib_weight", "-inf", "Enter a number."),
        ("half_life", "0", "or more."),
        ("half_life", "-7", "or more."),
        ("half_life", "1e9", "Give 3,650 or less."),
        ("entry_penalty", "101", "Give 100 or less."),
        ("entry_penalty", "-1", "Give 0 or more."),
        (A100, "-1", "Give 0 or more."),
        (A100, "nan", "Enter a number."),
        (A100, "1e7", "Give 1,000,000 or less."),
    ],
)
def test_what_cannot_be_charged_is_refused_by_field(
    as_admin: Client, node: Node, field: str, value: str, message: str
) -> None:
    models = {model: name for name, model in as_admin.get(CHARGING).context["form"].models.items()}
    name = models.get(field, field)
    found = refused(as_admin, CHARGING, **filled(as_admin, CHARGING) | {name: value})
    assert list(found) == [name]
    assert message in found[name][0]


def test_another_half_life_changes_whose_turn_it_is(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    """Alice used much long ago, bob a little now: what counts is how fast that fades."""
    other = Project.objects.create(name="language")
    dan = cast.person("dan", other)
    now = timezone.now()
    mine = cast.job(alice, project, gpus=4, submitted_at=now)
    his = cast.job(dan, other, gpus=4, submitted_at=now)
    for whose, user, ago, used in ((project, alice, 300, 1e9), (other, dan, 90, 1e3)):
        day = days.begin(now - timedelta(days=ago))
        account = {"project": whose, "user": user, "band": "batch"}
        DailyUsage.objects.create(**account, day=day, gpu_seconds=used, weighted=used)
        UsageBalance.objects.create(**account, value=used, at=day)
    shown = preview(as_admin, CHARGING, **filled(as_admin, CHARGING, half_life="3650"))
    (turn,) = shown.context["preview"].planned.turns
    assert (turn.before, turn.after) == (mine, his)
