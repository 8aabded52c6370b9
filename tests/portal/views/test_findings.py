"""What is wrong with nodes, on their pages, and what administrators do about it there."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from jobs.nodes.signs import Sign
from portal.actions import findings
from portal.models import Checkup, Event, Finding, Gpu, Node, User


def found(node: Node, kind: str, gpu: Gpu | None = None, text: str = "<b>as seen</b>.") -> Finding:
    now = timezone.now()
    with transaction.atomic():
        return findings.open_(node=node, gpu=gpu, sign=Sign(kind, text), since=now, now=now)


def test_a_finding_says_what_it_means_and_what_to_do(
    as_bob: Client, as_admin: Client, node: Node
) -> None:
    one = found(node, "ecc", node.gpus.get(index=3))
    page = as_bob.get("/nodes/gpu-1/").text
    assert "GPU 3: Errors of the GPU&#x27;s memory could not be corrected." in page
    assert "nvidia-smi --gpu-reset" in page
    assert "&lt;b&gt;as seen" in page and "<b>as seen" not in page
    assert "The GPU gets no further jobs." in page
    clear = f'action="/nodes/gpu-1/findings/{one.pk}/clear/"'
    assert clear not in page
    assert clear in as_admin.get("/nodes/gpu-1/").text


def test_the_worst_comes_first(as_bob: Client, node: Node) -> None:
    for kind in ("unused", "disk-filling", "mount"):
        found(node, kind)
    page = as_bob.get("/nodes/gpu-1/").text
    order = [page.index(words) for words in ("required mount", "nearly full", "is leased and not")]
    assert order == sorted(order)


def test_a_node_without_findings_has_no_such_panel(as_bob: Client, node: Node) -> None:
    assert "findings-head" not in as_bob.get("/nodes/gpu-1/").text


def test_an_administrator_clears_it(as_admin: Client, node: Node, admin: User) -> None:
    one = found(node, "xid-79", node.gpus.get(index=0))
    answer = as_admin.post(f"/nodes/gpu-1/findings/{one.pk}/clear/", follow=True).text
    assert "The GPU has fallen off the bus (Xid 79): cleared." in answer
    assert "gpu-1 takes jobs" not in answer
    node.refresh_from_db()
    assert not node.drained
    assert Event.objects.get(kind="finding cleared").actor == admin
    again = as_admin.post(f"/nodes/gpu-1/findings/{one.pk}/clear/", follow=True).text
    assert "that was over already" in again


def test_others_do_not(as_alice: Client, node: Node) -> None:
    one = found(node, "mount")
    assert as_alice.post(f"/nodes/gpu-1/findings/{one.pk}/clear/").status_code == 403
    assert as_alice.get("/nodes/gpu-1/checks/").status_code == 403
    one.refresh_from_db()
    assert one.cleared_at is None


def test_the_address_of_a_button_leads_to_the_page(as_admin: Client, node: Node) -> None:
    one = found(node, "mount")
    answer = as_admin.get(f"/nodes/gpu-1/findings/{one.pk}/clear/")
    assert (answer.status_code, answer["Location"]) == (302, "/nodes/gpu-1/")
    assert as_admin.post("/nodes/gpu-1/findings/999999/clear/").status_code == 404


def test_lists_have_a_badge_and_a_filter(as_bob: Client, node: Node) -> None:
    assert "gpu-1" not in as_bob.get("/nodes/?state=findings").text.partition("</form>")[2]
    found(node, "unused", node.gpus.get(index=0))
    assert "1 finding" not in as_bob.get("/nodes/").text, "a note asks nobody to do anything"
    found(node, "disk-filling")
    assert ">1 warning<" in as_bob.get("/nodes/").text
    found(node, "ecc", node.gpus.get(index=0))
    page = as_bob.get("/nodes/?state=findings").text
    assert ">2 findings<" in page
    assert "3 of 4 GPUs free" in page


def test_the_overview_counts_them_for_administrators(
    as_admin: Client, as_bob: Client, node: Node
) -> None:
    assert "state=findings" not in as_admin.get("/").text
    found(node, "ecc", node.gpus.get(index=0))
    page = as_admin.get("/").text
    assert "1 finding about the nodes" in page and "1 out of service" in page
    assert "state=findings" not in as_bob.get("/").text


def test_what_cannot_be_seen_is_said(as_bob: Client, node: Node) -> None:
    Checkup.objects.create(node=node, limits=["This account cannot read the kernel's log."])
    assert "cannot read the kernel&#x27;s log" in as_bob.get("/nodes/gpu-1/").text


def test_an_administrator_says_what_must_be_so(as_admin: Client, node: Node, admin: User) -> None:
    Checkup.objects.create(node=node, asked_at=timezone.now())
    sent = {"mounts": "/home\n\n /data \n/home", "check_program": "/usr/local/sbin/check",
            "guards_gpus": "on"}  # fmt: skip
    answer = as_admin.post("/nodes/gpu-1/checks/", sent, follow=True).text
    assert "Saved." in answer and "/usr/local/sbin/check" in answer
    node.refresh_from_db()
    assert (node.mounts, node.check_program) == (["/home", "/data"], "/usr/local/sbin/check")
    assert node.guards_gpus
    event = Event.objects.get(kind="checks set")
    assert event.actor == admin
    assert event.changes == {
        "mounts": [[], ["/home", "/data"]],
        "check_program": ["", "/usr/local/sbin/check"],
        "guards_gpus": [False, True],
    }
    assert Checkup.objects.get().asked_at is None, "it is looked at soon"
    assert "/home\n/data" in as_admin.get("/nodes/gpu-1/checks/").text


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"mounts": "home"}, "is not a path on the node"),
        ({"mounts": "\n".join(f"/{n}" for n in range(17))}, "16 can be looked at at most"),
        ({"check_program": "check"}, "is not a path on the node"),
        ({"check_program": "/" + "x" * 255}, "Use at most 255 characters"),
    ],
)
def test_what_is_refused_says_why(
    as_admin: Client, node: Node, sent: dict[str, str], words: str
) -> None:
    answer = as_admin.post("/nodes/gpu-1/checks/", sent)
    assert (answer.status_code, words in answer.text) == (422, True)
    node.refresh_from_db()
    assert (node.mounts, node.check_program) == ([], "")
