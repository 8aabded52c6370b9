"""The submit page: what was typed becomes a job, or comes back with what is wrong at its place."""

from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from portal.models import Checkpoint, Job, Node, Partition, Project, User
from tests.portal import cast

URL = "/jobs/new/"
SCRIPT = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --gres=gpu:2\necho hello\n"
pytestmark = pytest.mark.usefixtures("node")


def send(client: Client, **fields: object):
    return client.post(URL, {"script": SCRIPT, "nonce": "one", **fields})


def only_job() -> Job:
    return Job.objects.get()


def test_the_empty_form(as_alice: Client):
    page = as_alice.get(URL).text
    assert "#SBATCH --gres=gpu:1" in page
    assert 'nonce="' in page
    assert "style=" not in page
    assert re.search(r'name="nonce" value="[\w-]{20,}"', page)


def test_each_form_has_its_own_nonce(as_alice: Client):
    nonces = {re.search(r'name="nonce" value="([\w-]+)"', as_alice.get(URL).text)[1] for _ in "ab"}
    assert len(nonces) == 2


def test_a_stranger_is_asked_to_sign_in(client: Client):
    assert client.get(URL).status_code == 302
    assert send(client).status_code == 302
    assert not Job.objects.exists()


def test_a_script_becomes_a_job(as_alice: Client, alice: User, project: Project):
    response = send(as_alice)
    job = only_job()
    assert response.status_code == 302
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert (job.owner, job.project, job.name, job.gpus) == (alice, project, "train", 2)
    assert job.script.text == SCRIPT


def test_a_form_of_another_person_is_another_job(as_alice: Client, as_bob: Client, bob: User):
    send(as_alice)
    page = send(as_bob)
    assert Job.objects.count() == 2
    assert page["Location"] == f"/jobs/{Job.objects.get(owner=bob).pk}/"


def test_without_a_nonce_each_time_is_meant(as_alice: Client):
    for _ in "ab":
        as_alice.post(URL, {"script": SCRIPT})
    assert Job.objects.count() == 2


def test_line_ends_of_browsers(as_alice: Client):
    send(as_alice, script=SCRIPT.replace("\n", "\r\n"))
    assert only_job().script.text == SCRIPT


def test_what_the_form_says_wins(as_alice: Client):
    send(as_alice, name="mine", gpus_per_node="1", walltime="2:00:00", memory="8G", held="on")
    job = only_job()
    assert (job.name, job.gpus_per_node, job.walltime_s, job.held) == ("mine", 1, 7200, True)
    assert job.spec["resources"]["memory_mib"] == 8192


def test_a_band_is_chosen_where_there_is_a_choice(as_alice: Client):
    page = as_alice.get(URL).text
    assert '<option value="" selected>batch (usual)</option>' in page
    assert '<option value="production">production: work that others depend on, or that' in page
    Partition.objects.update(allowed_bands=["production"], default_band="production")
    assert 'name="band"' not in as_alice.get(URL).text
    Partition.objects.update(allowed_bands=["best-effort", "batch"])
    page = as_alice.get(URL).text
    assert 'value="best-effort"' in page and 'value="monitoring"' not in page
    assert page.index('value="batch"') < page.index('value="best-effort"')
    Partition.objects.create(name="other", is_default=False, default_band="best-effort")
    assert "production (usual)" in as_alice.get(URL).text
    cast.node("n9", partition=Partition.objects.get(name="other"))
    assert "the partition&#x27;s usual" in as_alice.get(URL).text
    send(as_alice, band="best-effort")
    assert only_job().spec["band"] == "best-effort"


def test_parts_of_a_gpu_are_offered_where_there_are_any(as_alice: Client, node: Node):
    assert 'name="shards"' not in as_alice.get(URL).text
    node.gpus.filter(index=0).update(shards=4)
    assert 'name="shards"' in as_alice.get(URL).text
    node.gpus.update(present=False)
    assert 'name="shards"' not in as_alice.get(URL).text


def test_parts_that_nobody_has_are_refused_where_they_were_asked_for(as_alice: Client):
    refusal = "no GPU of partition gpu is divided into parts"
    assert refusal in send(as_alice, shards="2").text
    page = send(as_alice, script="#!/bin/sh\n#SBATCH --gres=shard:2\n").text
    assert refusal in page
    assert not Job.objects.exists()


def test_a_command_needs_no_script(as_alice: Client):
    send(as_alice, script="", command="python train.py --lr '1e-3'")
    assert only_job().script.text == "#!/bin/bash\npython train.py --lr '1e-3'\n"


def test_a_command_takes_the_examples_place(as_alice: Client):
    example = as_alice.get(URL).context["form"]["script"].value()
    send(as_alice, script=example.replace("\n", "\r\n"), command="hostname")
    assert only_job().script.text == "#!/bin/bash\nhostname\n"


def test_an_array(as_alice: Client):
    response = as_alice.post(URL, {"script": SCRIPT, "array": "0-2"}, follow=True)
    assert Job.objects.count() == 3
    assert "of 3 jobs was submitted" in response.text


def test_two_clicks_submit_once(as_alice: Client):
    first, second = send(as_alice), send(as_alice)
    assert Job.objects.count() == 1
    assert first["Location"] == second["Location"]


def test_going_back_and_changing_submits_again(as_alice: Client):
    send(as_alice)
    send(as_alice, name="another")
    assert sorted(Job.objects.values_list("name", flat=True)) == ["another", "train"]


def test_a_file_takes_the_scripts_place(as_alice: Client):
    file = SimpleUploadedFile("job.sh", b"#!/bin/bash\necho from a file\n")
    send(as_alice, script_file=file)
    assert "from a file" in only_job().script.text


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"\xff\xfe\x00", "is no text in UTF-8"), (b"#" * 1_000_001, "1,000,001 bytes")],
)
def test_a_file_that_is_no_script(as_alice: Client, content: bytes, expected: str):
    response = send(as_alice, script_file=SimpleUploadedFile("job.sh", content))
    assert response.status_code == 422
    assert expected in response.text
    assert not Job.objects.exists()


def test_a_wrong_line_is_named(as_alice: Client):
    response = send(as_alice, script="#!/bin/bash\n#SBATCH --gpuz=2\necho kept\n", name="kept-name")
    assert response.status_code == 422
    assert "Line 2: <code>--gpuz</code>" in response.text
    assert "echo kept" in response.text
    assert "kept-name" in response.text
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("name", "a\u202eb"),
        ("project", "no-such"),
        ("partition", "no-such"),
        ("nodes", "many"),
        ("band", "urgent"),
        ("shards", "half"),
        ("max_switches", "0"),
        ("gpus_per_node", "-1"),
        ("gpu_model", "a b;c"),
        ("tasks_per_node", "0"),
        ("cpus_per_task", "x"),
        ("memory", "much"),
        ("walltime", "soon"),
        ("workdir", "relative/path"),
        ("environment", "NOT A VARIABLE"),
        ("array", "5-1"),
        ("dependency", "afterok:4711"),
        ("begin", "whenever"),
    ],
)
def test_every_field_says_what_is_wrong_and_keeps_what_was_typed(
    as_alice: Client, field: str, typed: str
):
    response = send(as_alice, **{field: typed})
    assert response.status_code == 422
    form = response.context["form"]
    assert list(form.errors) == [field]
    assert form[field].value() == typed
    error = response.text.index(f'id="id_{field}_error"')
    assert "field-error" in response.text[error : error + 200]
    assert not Job.objects.exists()


def test_more_than_the_lab_has_is_refused_with_the_most(as_alice: Client):
    response = send(as_alice, gpus_per_node="64")
    assert response.status_code == 422
    assert "has 4" in response.text
    assert not Job.objects.exists()


def test_longer_than_the_partition_allows(as_alice: Client):
    Partition.objects.update(max_walltime_s=600)
    response = send(as_alice, walltime="2:00:00")
    assert "allows 10 min at most" in response.text


@pytest.mark.parametrize("field", ["script", "name", "environment", "command"])
def test_nul_bytes_are_refused(as_alice: Client, field: str):
    typed = {"script": "#!/bin/bash\necho \0\n"}.get(field, "a\0b")
    response = send(as_alice, **{field: typed})
    assert response.status_code == 422
    assert field in response.context["form"].errors


def test_a_person_without_a_project_is_told(as_carol: Client):
    response = send(as_carol)
    assert response.status_code == 422
    assert "ask an administrator to add you" in response.text


def test_hostile_text_comes_back_as_text(as_alice: Client):
    evil = '"></textarea><script>alert(1)</script>'
    response = send(as_alice, script=f"#!/bin/sh\n#SBATCH {evil}\n", name=evil, project=evil)
    check = as_alice.post("/jobs/check/", {"script": f"#SBATCH --x='{evil}'\n", "project": evil})
    assert "<script>alert" not in response.text + check.text


def test_hostile_text_runs_exactly_as_written(as_alice: Client):
    value = "a'b\"c $(reboot) `id` ; & é\u00a0"
    send(as_alice, name="$(reboot)", environment=f"EVIL={value}\nSECOND=2")
    job = only_job()
    assert job.name == "$(reboot)"
    assert job.spec["environment"] == [["EVIL", value], ["SECOND", "2"]]


@pytest.fixture
def old(as_alice: Client, alice: User) -> Job:
    send(as_alice, gpus_per_node="1", memory="8G", environment="A=1")
    return only_job()


def test_relaunch_shows_the_same_settings(as_alice: Client, old: Job):
    form = as_alice.get(f"/jobs/{old.pk}/relaunch/").context["form"]
    filled = {name: form[name].value() for name in form.fields if form[name].value()}
    del filled["nonce"]
    assert filled == {
        "script": SCRIPT, "gpus_per_node": "1", "memory": "8192M", "environment": "A=1",
        "project": "vision", "partition": "gpu",
    }  # fmt: skip


def test_relaunch_submits_the_same_again(as_alice: Client, old: Job):
    form = as_alice.get(f"/jobs/{old.pk}/relaunch/").context["form"]
    filled = {name: form[name].value() or "" for name in form.fields if name != "script_file"}
    as_alice.post(f"/jobs/{old.pk}/relaunch/", filled)
    again = Job.objects.exclude(pk=old.pk).get()
    assert again.relaunch_of == old
    assert again.spec["resources"] == old.spec["resources"]
    assert again.resume_from == ""


@pytest.fixture
def checkpoints(old: Job, node: Node) -> list[Checkpoint]:
    """One that is complete, and one that is not."""
    part = cast.run(old, node, 0)
    return [
        Checkpoint.objects.create(
            job=old, attempt=part.attempt, node=node, name=name, path=f"/c/{name}", step=1,
            size_bytes=1, modified_at=cast.NOW, complete=complete,
        )
        for name, complete in (("good", True), ("half", False))
    ]  # fmt: skip


def test_relaunch_from_a_checkpoint(as_alice: Client, old: Job, checkpoints: list[Checkpoint]):
    good, half = checkpoints
    url = f"/jobs/{old.pk}/relaunch/"
    page = as_alice.get(f"{url}?checkpoint={good.pk}")
    assert page.context["form"]["checkpoint"].value() == str(good.pk)
    assert "half on" not in page.text
    refused = as_alice.post(url, {"script": SCRIPT, "checkpoint": str(half.pk)})
    assert refused.status_code == 422
    as_alice.post(url, {"script": SCRIPT, "checkpoint": str(good.pk)})
    assert Job.objects.exclude(pk=old.pk).get().resume_from == "/c/good"


def test_the_check_of_a_relaunch_knows_its_checkpoints(
    as_alice: Client, old: Job, checkpoints: list[Checkpoint]
):
    found = re.search(
        r'id="check" hx-post="([^"]+)"', as_alice.get(f"/jobs/{old.pk}/relaunch/").text
    )
    assert found
    good, half = (
        as_alice.post(found[1], {"script": SCRIPT, "checkpoint": str(row.pk)}).text
        for row in checkpoints
    )
    assert "Submitted now, it would start at once" in good
    assert f"Select a valid choice. {checkpoints[1].pk} is not one" in half


def test_relaunch_is_for_the_owner(as_bob: Client, as_admin: Client, old: Job):
    url = f"/jobs/{old.pk}/relaunch/"
    assert as_bob.get(url).status_code == 403
    assert as_bob.post(url, {"script": SCRIPT}).status_code == 403
    assert as_bob.post(f"{url}check/", {"script": SCRIPT}).status_code == 403
    assert as_admin.get(url).status_code == 200
    assert as_admin.get("/jobs/4711/relaunch/").status_code == 404
