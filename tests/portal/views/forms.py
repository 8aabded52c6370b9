"""Forms that show what would come of them before they save, as an administrator sends them."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpResponse
from django.test import Client

from portal.models import (
    Accounting,
    Event,
    Gpu,
    GpuModel,
    Membership,
    Node,
    Partition,
    Project,
    Quota,
    SchedulingPolicy,
)


def preview(client: Client, address: str, **given: Any) -> Any:
    """What the page says would come of it; nothing is changed by that."""
    before = everything()
    answer = client.post(address, given)
    assert answer.status_code == 200, answer.context["form"].errors
    assert everything() == before
    return answer


def save(client: Client, address: str, **given: Any) -> HttpResponse:
    """As somebody does who presses the button that the preview offers."""
    found = re.search(r'name="previewed" value="(\w+)"', preview(client, address, **given).text)
    assert found, "nothing to save"
    answer = client.post(address, {**given, "previewed": found[1], "save": "1"})
    assert answer.status_code == 302, answer.context["form"].errors
    return answer


def refused(client: Client, address: str, **given: Any) -> dict[str, list[str]]:
    before = everything()
    answer = client.post(address, given)
    assert answer.status_code == 422
    assert everything() == before
    return dict(answer.context["form"].errors)


def everything() -> list[Any]:
    return [
        list(model.objects.order_by("pk").values())
        for model in (
            Project, Membership, Quota, Event, Accounting, SchedulingPolicy, Partition, GpuModel,
            Gpu, Node,
        )
    ]  # fmt: skip


def filled(client: Client, address: str, **changed: Any) -> dict[str, Any]:
    """The form as the page has it, as a browser would send it, with changes."""
    form = client.get(address).context["form"]
    known = {name: form[name].value() for name in form.fields if name != "previewed"}
    return {name: value for name, value in (known | changed).items() if value is not None}


def last() -> tuple[str, Any]:
    event = Event.objects.latest("pk")
    assert event.actor.username == "root"
    return event.kind, event.changes


def edited(project: Project, **changed: Any) -> dict[str, Any]:
    """The form as it is, with changes."""
    parent = project.parent.name if project.parent else ""
    known = {"name": project.name, "title": project.title, "shares": project.shares}
    return known | {"description": project.description, "parent": parent} | changed
