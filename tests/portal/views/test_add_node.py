"""Adding a node by page, against real SSH servers."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from jobs.nodes.ssh import generate_key, load_key
from portal import reach
from portal.actions import nodes as actions
from portal.models import Event, Node, Partition
from tests.lab.account import test_account
from tests.lab.sshd import Sshd, available, free_port
from tests.portal import cast

pytestmark = pytest.mark.skipif(
    not available(), reason="needs OpenSSH's sshd (Debian: openssh-server)"
)


@pytest.fixture
def scratch() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="carrel-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def sshd(scratch: Path) -> Iterator[Sshd]:
    """A machine that lets the portal in."""
    actions.public_key()
    with (
        test_account() as account,
        Sshd(scratch / "sshd", account=account, client_key=load_key(settings.SSH_KEY)) as server,
    ):
        yield server
        for node in Node.all_objects.all():
            reach.forget(node.pk)


def form(server: Sshd, **changes: str) -> dict[str, str]:
    return {
        "host": server.host, "port": str(server.port), "login": server.user, "name": "new-1",
        "partition": "", "bastions": "",
    } | changes  # fmt: skip


def offered_key(page: bytes) -> str:
    found = re.search(r'<button[^>]*name="host_key" value="([^"]+)"', page.decode())
    assert found, page.decode()
    return unescape(found[1])


def test_the_form_shows_the_key_to_let_in(as_admin: Client) -> None:
    page = unescape(as_admin.get("/add-node/").content.decode())
    assert f"echo '{actions.public_key()}' >> ~/.ssh/authorized_keys" in page


def test_the_form_does_not_offer_the_practice_labs_partition(as_admin: Client) -> None:
    practice = Partition.objects.create(name="practice", is_default=True)
    cast.node("practice-1", simulated=True, partition=practice)
    page = as_admin.get("/add-node/").text
    choices = page[page.index('id="id_partition"') :].partition("</select>")[0]
    assert "gpu (usual)" in choices and "practice" not in choices


def test_a_node_is_added_once_its_key_is_confirmed(as_admin: Client, sshd: Sshd) -> None:
    asked = as_admin.post("/add-node/", form(sshd))
    assert asked.status_code == 200
    assert b"SHA256:" in asked.content
    assert not Node.objects.exists(), "nothing is added before the key is confirmed"
    key = offered_key(asked.content)
    assert key == sshd.host_key
    done = as_admin.post("/add-node/", form(sshd) | {"host_key": key}, follow=True)
    assert done.redirect_chain[-1][0] == "/nodes/new-1/"
    assert b"new-1 is a node now" in done.content
    node = Node.objects.get()
    assert (node.host_key, node.problem, node.health) == (key, "", "UP")
    assert node.cpus > 0
    assert Event.objects.filter(kind="added").get().actor.username == "root"


def test_a_node_behind_a_bastion(as_admin: Client, sshd: Sshd, scratch: Path) -> None:
    with Sshd(scratch / "gate", client_key=sshd.client_key) as gate:
        typed = form(sshd, bastions=f"{gate.user}@{gate.host}:{gate.port}")
        first = as_admin.post("/add-node/", typed)
        assert b"Machine 1 of 2, a bastion" in first.content
        assert offered_key(first.content) == gate.host_key
        assert gate.connections_served() == 0, "nobody signs in on an unconfirmed machine"
        second = as_admin.post("/add-node/", typed | {"host_key": gate.host_key})
        assert b"Machine 2 of 2" in second.content
        assert offered_key(second.content) == sshd.host_key
        both = [gate.host_key, sshd.host_key]
        done = as_admin.post("/add-node/", typed | {"host_key": both}, follow=True)
        assert b"new-1 is a node now" in done.content
        assert [hop["host_key"] for hop in Node.objects.get().jump] == [gate.host_key]
        reach.forget(Node.objects.get().pk)


def test_going_back_keeps_what_was_typed(as_admin: Client, sshd: Sshd) -> None:
    answer = as_admin.post("/add-node/", form(sshd, name="kept-name") | {"back": "1"})
    assert b'value="kept-name"' in answer.content
    assert b"Let Carrel in" in answer.content


def test_a_wrong_key_is_not_trusted(as_admin: Client, sshd: Sshd) -> None:
    answer = as_admin.post("/add-node/", form(sshd) | {"host_key": cast.HOST_KEY}, follow=True)
    assert b"could not be probed yet" in answer.content
    assert sshd.connections_served() == 0
    assert Node.objects.get().problem


def test_a_key_that_is_none_is_told(as_admin: Client, sshd: Sshd) -> None:
    answer = as_admin.post("/add-node/", form(sshd) | {"host_key": "ssh-rsa nonsense"})
    assert answer.status_code == 422
    assert not Node.objects.exists()


def test_a_machine_that_does_not_let_us_in_is_added_with_its_problem(
    as_admin: Client, sshd: Sshd, scratch: Path
) -> None:
    with Sshd(scratch / "closed", client_key=generate_key(scratch / "other")) as closed:
        typed = form(closed) | {"host_key": closed.host_key}
        answer = as_admin.post("/add-node/", typed, follow=True)
    assert b"authorized_keys" in answer.content
    assert Node.objects.get().health == Node.Health.UNREACHABLE


def test_nobody_listens_there(as_admin: Client) -> None:
    typed = {"host": "127.0.0.1", "port": str(free_port()), "login": "carrel", "name": "x1"}
    answer = as_admin.post("/add-node/", typed)
    assert answer.status_code == 422
    assert b"Start sshd on the node, or correct the port." in answer.content
    notice = answer.text[answer.text.index('role="alert"') :].partition("</div></div>")[0]
    assert notice.count("127.0.0.1") == 1, notice
    assert b'value="x1"' in answer.content


@pytest.mark.parametrize(
    ("field", "typed", "told"),
    [
        ("host", "", "This field is required."),
        ("host", "gpu 1; rm -rf /", "is not a host"),
        ("host", "-oProxyCommand=x", "is not a host"),
        ("port", "0", "greater than or equal to 1"),
        ("port", "70000", "less than or equal to 65535"),
        ("port", "ssh", "Enter a whole number."),
        ("login", "", "This field is required."),
        ("login", "a b", "is not an account; use at most 32 letters"),
        ("login", "a" * 33, "at most 32"),
        ("login", "-oProxy", "its first character should be a letter"),
        ("name", "<b>x</b>", "Use letters, digits"),
        ("name", "gpu-1", "There is a node gpu-1 already"),
        ("partition", "999", "Select a valid choice."),
        ("bastions", "gate.example.org", "write account@host"),
        ("bastions", "me@gate:99999", "write account@host"),
        ("bastions", "me@gate;x", "is not a host"),
        ("bastions", "\n".join(f"me@gate{n}" for n in range(5)), "At most 4 bastions"),
    ],
)
def test_what_is_wrong_stands_at_its_field(
    as_admin: Client, node: Node, field: str, typed: str, told: str
) -> None:
    right = {"host": "192.0.2.1", "port": "22", "login": "carrel", "name": "n2"}
    answer = as_admin.post("/add-node/", right | {field: typed})
    assert answer.status_code == 422
    page = unescape(answer.content.decode())
    after = page[page.index(f'id="id_{field}_error"') :]
    assert told in after[: after.index("</div>")]
    assert b"<b>x" not in answer.content
    assert Node.objects.count() == 1


@pytest.mark.parametrize(
    ("host", "name"),
    [("gpu-7.example.org", "gpu-7"), ("127.0.0.1", "127.0.0.1"), ("[::1]", "1")],
)
def test_the_name_comes_from_the_host(as_admin: Client, host: str, name: str) -> None:
    typed = {"host": host, "port": "22", "login": "carrel", "name": ""}
    taken = cast.node(name, gpus=0)
    page = as_admin.post("/add-node/", typed).content.decode()
    assert f"There is a node {taken.name} already" in page


def test_strangers_may_not(as_alice: Client) -> None:
    assert as_alice.get("/add-node/").status_code == 403
    assert as_alice.post("/add-node/", {"host": "x"}).status_code == 403
