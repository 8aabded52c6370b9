"""What a change would do, told while others go on."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import pytest

from jobs.lifecycle import State
from portal.actions import preview as previews
from portal.actions import quotas
from portal.actions.preview import preview
from portal.models import Event, Node, Project, Quota, User
from portal.queries import effects, history
from tests.portal import cast
from tests.portal.cast import NOW
from tests.portal.together import at_once

COMPUTING = [(effects, "Counters"), (history, "predictions"), (previews, "compare")]
"""What takes the time: to judge jobs by the quotas, to foretell run times, and to plan."""


@pytest.mark.parametrize(("module", "name"), COMPUTING)
def test_others_write_while_it_is_worked_out(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str,
    node: Node, alice: User, admin: User, project: Project,
) -> None:  # fmt: skip
    running = [cast.job(alice, project, state=State.RUNNING) for _ in range(2)]
    for index, job in enumerate(running):
        cast.run(job, node, index)
    cast.job(alice, project)
    works_out = getattr(module, name)

    def meanwhile(*given: Any, **named: Any) -> Any:
        at_once(lambda: Event.objects.create(at=NOW, kind="meanwhile"))
        return works_out(*given, **named)

    monkeypatch.setattr(module, name, meanwhile)
    change = partial(quotas.set_quota, project=project, limits={"gpus": 1}, actor=admin, now=NOW)
    found = preview(change, now=NOW)
    assert Event.objects.filter(kind="meanwhile").exists()
    assert [hit.job.pk for hit in found.over] == [running[1].pk]
    assert not Quota.objects.exists()
