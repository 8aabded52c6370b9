"""Use as page and as CSV: the same numbers, narrowed by the URL, whatever it says."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from portal.models import Allocation, Charge, DailyUsage, Job, Project, User
from portal.queries import days, usage_page
from portal.queries.spans import Span
from portal.views import usage as views
from tests.portal import cast

H100 = "NVIDIA H100 80GB HBM3"
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


@pytest.fixture
def charged(project: Project, alice: User, bob: User, node: object) -> Project:
    """alice 6 GPU-hours ten days ago in vision, bob 2 in arms below it three days ago."""
    arms = Project.objects.create(name="arms", parent=project)
    charge(alice, project, Band.BATCH, H100, 6, days_ago=10)
    charge(bob, arms, Band.PRODUCTION, "", 2, days_ago=3)
    return arms


def charge(
    user: User, project: Project, band: Band, model: str, hours: float, days_ago: int
) -> None:
    job = cast.job(user, project, state=State.COMPLETED)
    part = cast.run(job, cast.node(f"n{job.pk}", gpus=0))
    start = days.begin(timezone.now() - timedelta(days=days_ago)) + timedelta(hours=1)
    Allocation.objects.filter(pk=part.pk).update(charged=True)
    account = {"project": project, "user": user, "band": band, "gpu_model": model}
    amount = {"gpu_seconds": hours * 3600, "weighted": hours * 7200}
    Charge.objects.create(allocation=part, starts_at=start, ends_at=start + timedelta(hours=1),
                          **account, **amount)  # fmt: skip
    DailyUsage.objects.create(day=days.begin(start), **account, **amount)
    Job.objects.filter(pk=job.pk).update(band=band)


def rows(client: Client, query: str) -> dict[str, float]:
    answer = client.get(f"/usage/{query}")
    assert answer.status_code == 200
    return {used.name: used.gpu_hours for used in answer.context["table"].rows}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?period=30d", {"vision": 6, "arms": 2}),
        ("?period=7d", {"arms": 2}),
        ("?period=30d&by=user", {"alice": 6, "bob": 2}),
        ("?period=30d&by=band", {"batch": 6, "production": 2}),
        ("?period=30d&by=model", {H100: 6, "no GPU": 2}),
        ("?period=30d&project=vision", {"vision": 6, "arms": 2}),
        ("?period=30d&project=arms", {"arms": 2}),
        ("?period=30d&user=bob&by=user", {"bob": 2}),
        ("?period=30d&band=batch", {"vision": 6}),
        (f"?period=30d&model={H100}", {"vision": 6}),
        ("?period=30d&model=none", {}),
        ("?period=range&from=2020-01-01&to=2020-02-01", {}),
    ],
)
def test_the_url_says_what_is_told(
    as_carol: Client, charged: Project, query: str, expected: dict[str, float]
) -> None:
    assert rows(as_carol, query) == expected


def test_a_page_of_many_rows_and_the_sum_of_all(
    as_carol: Client, charged: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE_SIZE", 1)
    for number, (name, other) in enumerate([("alice", "bob"), ("bob", "alice")], 1):
        page = as_carol.get(f"/usage/?period=30d&by=user&page={number}").text
        assert f">{name}</a>" in page and f">{other}</a>" not in page
        assert f"{number} to {number} of 2</span>" in page
        assert '<th scope="row">All</th><td class="number" data-label="GPU-hours">8.0<' in page
    assert ">alice<" in as_carol.get("/usage/?period=30d&by=user&page=x").text


def test_a_project_names_who_used_most(
    as_carol: Client, charged: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_page, "FIRST", 1)
    _, _, used = as_carol.get("/projects/vision/?period=30d").text.partition('id="use"')
    assert ">alice</a>" in used and ">bob</a>" not in used
    link = 'href="/usage/?by=user&amp;project=vision&amp;period=30d">and 1 more</a>'
    assert link in used
    monkeypatch.undo()
    assert "more</a>" not in as_carol.get("/projects/vision/?period=30d").text


def test_by_day_in_their_order(as_carol: Client, charged: Project) -> None:
    found = rows(as_carol, "?period=30d&by=day")
    assert list(found) == sorted(found)
    assert list(found.values()) == [6, 2]


def test_rows_lead_to_what_they_are_made_of(as_carol: Client, charged: Project) -> None:
    for by in ("project", "user", "band", "model", "day"):
        for _, _, inside in as_carol.get(f"/usage/?period=30d&by={by}").context["rows"]:
            assert not inside or rows(as_carol, inside)


def test_numbers_align_and_carry_what_they_are(as_carol: Client, charged: Project) -> None:
    page = as_carol.get("/usage/?period=30d").text
    for words in ("GPU-hours", "Weighted", ">6.0<", ">75.0 %<", ">12.0<", ">8.0<", "counted until"):
        assert words in page


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("?project=nope", "There is no project &#x27;nope&#x27;."),
        ("?user=nobody%00", "There is no user &#x27;nobody&#x27;."),
        ("?band=urgent", "There is no band &#x27;urgent&#x27;"),
        ("?by=colour", "Use cannot be told by &#x27;colour&#x27;"),
        ("?period=century", "There is no period &#x27;century&#x27;"),
        ("?from=tomorrow", "&#x27;tomorrow&#x27;, should be as 2026-11-03."),
        ("?from=2026-11-03&to=2026-11-01", "The last day, 2026-11-01, is before the first one"),
        ("?from=9999-12-31&to=9999-12-31", "is out of reach"),
        ("?from=0001-01-01", "is out of reach"),
        ("?from=2990-01-01&to=2990-01-02", "Nothing is known yet of 2990-01-01."),
        ("?user=" + "x" * 5000, "There is no user"),
        ("?project=%F0%9F%90%99", "There is no project"),
    ],
)
def test_what_the_url_says_wrongly_is_told_and_refused_as_csv(
    as_carol: Client, charged: Project, query: str, told: str
) -> None:
    page = as_carol.get(f"/usage/{query}")
    assert page.status_code == 200
    assert told in page.text
    assert as_carol.get(f"/usage.csv{query}").status_code == 400


def test_the_same_as_csv(as_carol: Client, charged: Project) -> None:
    answer = as_carol.get("/usage.csv?period=30d&by=user&from=ignored")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer["Content-Disposition"]
    head, *found = csv.reader(answer.text.splitlines())
    assert head == ["user", "gpu_hours", "weighted_gpu_hours", "since", "until"]
    assert [row[:3] for row in found] == [["alice", "6.0", "12.0"], ["bob", "2.0", "4.0"]]
    for row in found:
        assert datetime.fromisoformat(row[3]) < datetime.fromisoformat(row[4])


def test_no_name_is_a_formula_of_a_spreadsheet(as_carol: Client, project: Project) -> None:
    charge(cast.person("+1+1"), project, Band.BATCH, "", 1, days_ago=3)
    assert "'+1+1,1.0," in as_carol.get("/usage.csv?period=7d&by=user").text


def test_nothing_used_says_what_to_do(as_alice: Client) -> None:
    assert "Nothing was used yet this month." in as_alice.get("/usage/").text
    assert "Nothing was used." in as_alice.get("/usage/?period=7d").text


def test_the_link_of_the_download_keeps_the_filter(as_alice: Client, charged: Project) -> None:
    page = as_alice.get("/usage/?period=30d&by=band&project=vision").text
    assert 'href="/usage.csv?by=band&amp;period=30d&amp;project=vision"' in page


@pytest.mark.parametrize(
    ("query", "since", "until"),
    [
        ({}, "2026-11-01", None),
        ({"period": "last-month"}, "2026-10-01", "2026-11-01"),
        ({"period": "7d"}, "2026-11-11 12:00", None),
        ({"from": "2026-11-03", "to": "2026-11-05"}, "2026-11-03", "2026-11-06"),
        ({"from": "2026-11-03"}, "2026-11-03", None),
        ({"from": "2026-11-03", "to": "2026-12-24"}, "2026-11-03", None),
        ({"period": "range"}, "2026-11-01", None),
        ({"period": "", "from": "2026-11-03"}, "2026-11-01", None),
    ],
)
def test_which_time_is_looked_at(query: dict[str, str], since: str, until: str | None) -> None:
    span = Span.read(query, NOON)
    assert span.since == datetime.fromisoformat(since).replace(tzinfo=UTC)
    assert span.until == (datetime.fromisoformat(until).replace(tzinfo=UTC) if until else NOON)
    assert not span.problems
