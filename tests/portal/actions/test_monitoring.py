"""The band before all others is not for anybody to choose."""

from __future__ import annotations

import pytest
from django.test import Client

from jobs.bands import Band
from jobs.directives import SpecErrors
from portal.actions import submit
from portal.models import Node, Partition, Project, User
from portal.queries import partitions
from tests.portal import cast
from tests.portal.cast import NOW

SCRIPT = "#!/bin/bash\n#SBATCH --gpus-per-node=1\n#SBATCH --qos=monitoring\ntrue\n"
pytestmark = pytest.mark.usefixtures("node", "project")


def asks(owner: User, **overrides: str) -> submit.Request:
    return submit.read(owner=owner, script=SCRIPT, overrides=overrides, now=NOW)


def test_a_member_is_told_what_to_give_instead(alice: User) -> None:
    with pytest.raises(SpecErrors) as caught:
        asks(alice)
    (error,) = caught.value.errors
    assert error.message == (
        "monitoring is for administrators; leave out --qos, or give production, batch, best-effort"
    )
    assert asks(alice, band="production").spec.band is Band.PRODUCTION


def test_an_administrator_may(admin: User) -> None:
    assert asks(admin).spec.band is Band.MONITORING


def test_where_it_is_named_everybody_may(alice: User) -> None:
    Partition.objects.update(allowed_bands=["monitoring", "batch"])
    assert asks(alice).spec.band is Band.MONITORING
    Partition.objects.update(allowed_bands=["batch"])
    with pytest.raises(SpecErrors, match="allows batch only"):
        asks(alice)


def test_it_is_offered_to_those_who_may(as_alice: Client, as_admin: Client) -> None:
    offered = 'value="monitoring"'
    assert offered in as_admin.get("/jobs/new/").text
    assert offered not in as_alice.get("/jobs/new/").text
    Partition.objects.update(allowed_bands=["monitoring", "batch"])
    assert offered in as_alice.get("/jobs/new/").text


def test_whose_waiting_jobs_would_not_be_taken_in_is_told(
    admin: User, alice: User, project: Project, node: Node
) -> None:
    mine = cast.job(alice, project, band=Band.MONITORING)
    cast.job(admin, project, band=Band.MONITORING)
    now = Partition(pk=node.partition_id, allowed_bands=["monitoring", "batch"])
    found = partitions.beyond(now, Partition(pk=node.partition_id))
    assert [hit.job for hit in found.hits] == [mine]
    assert found.hits[0].why == "Its band is monitoring, which would be for administrators only."
