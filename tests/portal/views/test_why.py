"""Why a job waits: the panel of its page, the lists, and what would start it sooner."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.lifecycle import Reason, State
from jobs.scheduler.policy import Order
from portal import broker
from portal.actions import schedule
from portal.models import Attempt, Job, Node, Partition, Project, SchedulingPolicy, User
from portal.queries import pass_rows
from tests.portal import cast

HTMX = {"HX-Request": "true"}
HOUR = timedelta(hours=1)


def text(client: Client, job: Job, part: str = "") -> str:
    response = client.get(f"/jobs/{job.pk}/{part}")
    assert response.status_code == 200
    return " ".join(response.text.split())


def test_the_panel_tells_what_is_in_the_way_and_who_holds_it(
    as_alice: Client, waiting: Job, holder: Job
):
    shown = text(as_alice, waiting)
    assert "Why it waits" in shown
    assert "Needs 2 GPUs on one node; 1 is free (on gpu-1)." in shown
    assert f'<a href="/jobs/{holder.pk}/">hog, job {holder.pk}</a> of bob in vision' in shown
    assert "at the latest</span>" in shown
    assert "next in partition" in shown
    assert "in about 55 min" in shown
    assert "as of <time" in shown


def test_of_who_should_have_ended_nobody_tells_when_it_will(as_alice: Client, waiting: Job):
    Job.objects.filter(name="hog").update(started_at=timezone.now() - 3 * HOUR)
    schedule.schedule(now=timezone.now())
    shown = text(as_alice, waiting)
    assert "should have ended by now: when that will be free is not known." in shown
    assert "nobody can tell" in shown
    assert "; was to end by <time" in shown


def test_who_comes_too_late_for_a_deadline_is_told_so(as_alice: Client, waiting: Job):
    waiting.spec["deadline_at"] = (timezone.now() + 1.5 * HOUR).isoformat()
    waiting.save()
    schedule.schedule(now=timezone.now())
    shown = text(as_alice, waiting)
    assert "to end before its deadline, and as far as is known it cannot." in shown
    assert "<dt>Expected start</dt><dd>none before its deadline</dd>" in shown


def test_behind_who_should_have_ended_all_keep_their_places(
    as_alice: Client, alice: User, project: Project, waiting: Job
):
    cast.job(alice, project, name="newer", gpus=4)
    Job.objects.filter(name="hog").update(started_at=timezone.now() - 3 * HOUR)
    schedule.schedule(now=timezone.now())
    waits = Job.objects.filter(state=State.PENDING).order_by("position")
    assert [(job.position, job.starts_at) for job in waits] == [(1, None), (2, None)]
    shown = text(as_alice, waits[1])
    assert "nobody can tell" in shown
    assert "2nd of 2 in partition" in shown


def test_who_waits_for_nodes_to_come_back_has_no_place(as_alice: Client, waiting: Job):
    Node.objects.update(drained=True)
    schedule.schedule(now=timezone.now())
    waiting.refresh_from_db()
    assert (waiting.reason, waiting.position) == (Reason.PARTITION_DOWN, None)
    assert "none: it does not wait for its turn" in text(as_alice, waiting)


def test_the_place_of_whom_no_pass_looks_at_is_not_known(
    as_alice: Client, alice: User, project: Project, waiting: Job, monkeypatch: pytest.MonkeyPatch
):
    later = cast.job(alice, project, submitted_at=timezone.now())
    monkeypatch.setattr(pass_rows, "MAX_PENDING", 1)
    schedule.schedule(now=timezone.now())
    shown = text(as_alice, later)
    assert "not all are looked at: its turn comes" in shown
    assert "<dt>Place</dt><dd>not known</dd>" in shown


def test_further_blockers_are_kept_and_told(as_alice: Client, alice: User, waiting: Job):
    Job.objects.filter(pk=waiting.pk).update(also=["The quota of vision is <full>."])
    shown = text(as_alice, waiting)
    assert "<li>The quota of vision is &lt;full&gt;.</li>" in shown
    assert "and 1 more in its way" in as_alice.get("/queue/").text
    schedule.schedule(now=timezone.now())
    waiting.refresh_from_db()
    assert waiting.also == [], "it was the last pass that decided"


def test_a_quota_and_the_room_are_both_told(
    as_alice: Client, alice: User, project: Project, holder: Job
):
    project.quotas.create(gpus=4)
    job = cast.job(alice, project, gpus=2)
    schedule.schedule(now=timezone.now())
    job.refresh_from_db()
    assert job.reason == Reason.QUOTA_GPUS
    assert len(job.also) == 1
    shown = text(as_alice, job)
    assert job.detail in shown
    assert '<a href="/queue/?state=active&amp;project=vision">what runs there</a>' in shown
    assert "Needs 2 GPUs on one node; 1 is free (on gpu-1)." in shown


def test_the_parts_of_its_priority(as_alice: Client, waiting: Job):
    shown = text(as_alice, waiting)
    assert "Asks for 2 of the partition&#x27;s 4 GPUs: 50 of 100 points." in shown
    assert "in fair share: " in shown
    assert "Nobody has moved it: 0 points." in shown
    Partition.objects.update(priority_weights={"size": 10.0})
    assert "5 of 10 points." in text(as_alice, waiting)


def test_in_another_order_no_points_are_told(as_alice: Client, waiting: Job):
    assert "In each band the most points go first." in text(as_alice, waiting)
    SchedulingPolicy.objects.create(order=Order.SHORTEST)
    shown = text(as_alice, waiting)
    assert "points go first" not in shown
    assert "the shortest expected run goes first. It counts as a run of 1 h." in shown


def test_what_its_expected_run_time_rests_on(
    as_alice: Client, as_bob: Client, alice: User, project: Project, waiting: Job
):
    assert "its whole walltime of 1 h: nothing like it has ended yet" in text(as_alice, waiting)
    old = cast.job(alice, project, gpus=2, state=State.RUNNING)
    Attempt.objects.create(
        job=old, number=1, started_at=cast.NOW, ended_at=cast.NOW + timedelta(minutes=20),
        outcome=State.COMPLETED,
    )  # fmt: skip
    assert old.move(State.COMPLETED, now=cast.NOW + timedelta(minutes=20))
    assert "about 20 min 00 s, as your last job named train in vision on 2 GPUs ran" in text(
        as_alice, waiting
    )
    assert "as alice&#x27;s last job named train in vision on 2 GPUs ran" in text(as_bob, waiting)


def test_the_spread_is_told_where_there_is_one(as_alice: Client, waiting: Job):
    now = timezone.now()
    Job.objects.filter(pk=waiting.pk).update(
        starts_at=now + 2 * HOUR, starts_low=now + HOUR, starts_high=now + 30 * HOUR
    )
    for page in (text(as_alice, waiting), as_alice.get("/queue/").text, as_alice.get("/").text):
        assert ">about " in page
        assert "between " in page
        assert "as of <time" in page


def test_whose_start_nobody_can_tell(as_alice: Client, alice: User, project: Project, node: Node):
    job = cast.job(alice, project, held=True, reason=Reason.HELD_USER)
    schedule.schedule(now=timezone.now())
    shown = text(as_alice, job)
    assert "nobody can tell" in shown
    assert "none: it does not wait for its turn" in shown
    sooner = text(as_alice, job, "sooner/")
    assert "Released, it would start now." in sooner
    assert "A new job" not in sooner


def test_who_waits_for_a_time_has_no_place_but_an_expected_start(
    as_alice: Client, alice: User, project: Project, node: Node
):
    begin = timezone.now() + 5 * HOUR
    spec = {"name": "late", "resources": {"gpus_per_node": 1}, "begin_at": begin.isoformat()}
    job = cast.job(alice, project)
    Job.objects.filter(pk=job.pk).update(spec=spec)
    schedule.schedule(now=timezone.now())
    job.refresh_from_db()
    assert (job.reason, job.position) == (Reason.BEGIN_TIME, None)
    assert job.starts_at is not None
    assert abs(job.starts_at - begin) < timedelta(minutes=2)


def test_what_it_depends_on(as_alice: Client, as_bob: Client, alice: User, project: Project):
    first, *_ = cast.array(alice, project, State.COMPLETED, State.RUNNING, State.RUNNING)
    alone = cast.job(alice, project, name="alone", state=State.RUNNING)
    waits = [{"kind": "afterok", "job_id": pk} for pk in (first.pk, alone.pk, 10**6)]
    job = cast.job(alice, project)
    job.spec |= {"dependencies": [*waits, {"kind": "singleton", "job_id": None}]}
    job.save()
    shown = text(as_alice, job, "?part=why")
    whole = f"/queue/?array={first.pk}&amp;state="
    assert f'afterok: <a href="{whole}all">train, all of array {first.pk}</a>' in shown
    assert f'href="{whole}RUNNING">2 running</a>' in shown
    assert f'afterok: <a href="/jobs/{alone.pk}/">alone, job {alone.pk}</a>' in shown
    assert "afterok: a job that is no longer known" in shown
    assert "singleton: your earlier jobs of the same name" in shown
    assert "singleton: earlier jobs of alice of the same name" in text(as_bob, job, "?part=why")


@pytest.mark.parametrize("state", [State.RUNNING, State.COMPLETED])
def test_who_does_not_wait_has_no_reasons(
    as_alice: Client, alice: User, project: Project, state: State
):
    job = cast.job(alice, project, state=state, starts_at=cast.NOW, position=3)
    assert "Why it waits" not in text(as_alice, job)
    assert ">expected to start" not in text(as_alice, job)
    assert 'id="why"' in text(as_alice, job, "?part=why")
    assert "it does not wait any more" in text(as_alice, job, "sooner/")


def test_who_is_told_of_is_read_once_however_many_wait(
    as_alice: Client, alice: User, bob: User, project: Project, waiting: Job, node: Node
):
    def count(part: str) -> int:
        broker.connection().flushdb()
        with CaptureQueriesContext(connection) as queries:
            text(as_alice, waiting, part)
        return len(queries)

    parts = ("", "?part=why", "sooner/")
    before = [count(part) for part in parts]
    names = [cast.job(bob, project, gpus=4).pk for _ in range(8)]
    Job.objects.filter(pk=waiting.pk).update(
        also=[f"Job {pk} is ahead of it." for pk in names], detail=f"Jobs {names[0]} and 3 others."
    )
    cast.node("gpu-2", gpus=0)
    assert [count(part) for part in parts] == before


def test_by_expected_start(as_alice: Client, alice: User, project: Project):
    now = timezone.now()
    cast.job(alice, project, name="never", position=None)
    cast.job(alice, project, name="second", starts_at=now + 2 * HOUR, position=1)
    cast.job(alice, project, name="first", starts_at=now + HOUR, position=2)
    cast.job(alice, project, name="runs", state=State.RUNNING, starts_at=now + 3 * HOUR)

    def names(query: str) -> list[str]:
        return [row.job.name for row in as_alice.get(f"/queue/{query}").context["rows"]]

    assert names("?sort=start") == ["runs", "first", "second", "never"]
    assert names("") == ["runs", "second", "first", "never"], "in the order of the queue"


def test_the_age_of_the_figures_moves_on_with_the_passes(waiting: Job):
    told = waiting.partition.foretold_at
    assert told is not None
    schedule.schedule(now=told + timedelta(seconds=2))
    assert Partition.objects.get().foretold_at == told + timedelta(seconds=2)
    schedule.schedule(now=told + timedelta(seconds=20))
    assert Partition.objects.get().foretold_at == told + timedelta(seconds=20)


def test_the_check_tells_the_expected_start(as_alice: Client, waiting: Job, holder: Job):
    script = "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --time=1:00:00\n"
    page = " ".join(as_alice.post("/jobs/check/", {"script": script}).text.split())
    assert "Submitted now, it would wait." in page
    assert "It is expected to start <b><time" in page
    assert "if nobody else comes before it." in page
    held = as_alice.post("/jobs/check/", {"script": script, "held": "on"}).text
    assert "expected to start" not in held
