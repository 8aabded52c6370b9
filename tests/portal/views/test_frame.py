"""What all pages share: the frame, the policy, what is vendored, the pages for errors."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.test import Client

from portal.models import Node, Project, User

ROOT = Path(settings.BASE_DIR)
VENDOR = ROOT / "static" / "vendor"
PAGES = [
    "/", "/queue/", "/submit/", "/nodes/", "/nodes/gpu-1/", "/add-node/", "/account/",
    "/projects/", "/projects/vision/", "/projects/vision/edit/", "/projects/vision/quota/",
    "/projects/vision/archive/", "/projects/vision/members/add/", "/add-project/", "/lending/",
    "/usage/", "/reservations/", "/add-reservation/",
    "/settings/", "/settings/policy/", "/settings/partitions/gpu/", "/settings/charging/",
    "/settings/sharing/", "/settings/sharing/gpu-1/",
]  # fmt: skip


@pytest.mark.parametrize("address", [*PAGES, "/nope/"])
def test_pages_keep_to_the_policy(
    as_admin: Client, node: Node, project: Project, address: str
) -> None:
    answer = as_admin.get(address)
    policy = answer["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    page = answer.content.decode()
    assert not re.search(r"<[^>]+\s(style|on\w+|hx-on[\w:-]*)=", page), "inline style or script"
    assert not re.search(r"<script(?![^>]*\ssrc=)[^>]*>", page), "inline script"
    assert not re.search(r'(src|href)="(https?:)?//', page), "something from another host"
    assert '<a class="skip" href="#main">' in page


@pytest.mark.parametrize("address", PAGES)
def test_pages_are_named_and_built_whole(
    as_admin: Client, node: Node, project: Project, address: str
) -> None:
    page = as_admin.get(address).content.decode()
    assert re.search(r"<title>\S.* · Carrel</title>", page)
    assert len(re.findall(r"<h1[ >]", page)) == 1
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "an id twice"
    for name in re.findall(r'<label[^>]* for="([^"]+)"', page):
        assert name in ids, f"a label for {name}, which is not there"
    for address in re.findall(r'(?:src|href)="/static/([^"#]+)', page):
        assert finders.find(address), address


def test_every_icon_is_in_the_sprite() -> None:
    sprite = (VENDOR / "bootstrap-icons" / "icons.svg").read_text()
    there = set(re.findall(r'<symbol id="([^"]+)"', sprite))
    used = {
        name
        for template in (ROOT / "templates").rglob("*.html")
        for name in re.findall(r'{% icon "([^"]+)" %}', template.read_text())
    }
    assert used
    assert used <= there, f"add to deploy/frontend/icons.txt: {sorted(used - there)}"


def test_what_is_vendored_is_listed_with_its_hash() -> None:
    packages = json.loads((VENDOR / "VENDOR.json").read_text())["packages"]
    listed = {}
    for package in packages:
        parts = package.get("made_of", [package])
        assert all(part["version"] and part["licence"] for part in parts)
        listed |= package["files"]
    for name, digest in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
    kept = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.is_file()}
    unlisted = {
        name for name in kept - set(listed) if Path(name).name not in ("LICENSE", "VENDOR.json")
    }
    assert not unlisted


def test_a_page_that_is_not_there(as_alice: Client) -> None:
    answer = as_alice.get("/nope/")
    assert answer.status_code == 404
    assert b"There is nothing here" in answer.content


@pytest.mark.parametrize("name", ["400.html", "403.html", "404.html", "500.html", "403_csrf.html"])
def test_pages_for_errors_need_nothing(name: str) -> None:
    page = render_to_string(name)
    assert "Go to the overview" in page
    assert len(re.findall("<h1>", page)) == 1


def test_a_form_without_its_token_is_refused(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post("/account/", {"form": "name", "first_name": "X"})
    assert answer.status_code == 403
    assert b"Nothing was changed" in answer.content
    alice.refresh_from_db()
    assert alice.first_name == ""


def test_the_menu_says_where_one_is(as_admin: Client, node: Node) -> None:
    rooms = {
        "/": "Overview", "/queue/": "Jobs", "/nodes/gpu-1/": "Nodes", "/reservations/": "Nodes",
        "/what-if/": "Projects",
    }  # fmt: skip
    for address, room in rooms.items():
        page = as_admin.get(address).content.decode()
        here = re.findall(r'aria-current="page"[^>]*>(?:<svg.*?</svg>)?(\w+)', page)
        assert here == [room]
