"""What every full page shows: the room we are in and the practice lab's banner."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.http import HttpRequest

from portal.models import Node
from portal.queries import outage

_ROOMS = {
    "job": "queue",
    "log": "queue",
    "add_node": "nodes",
    "describe": "nodes",
    "reservations": "nodes",
    "edit_project": "projects",
    "usage": "projects",
    "sharing": "lab",
    "what_if": "projects",
}
"""View modules that belong to another's entry of the menu."""


def everywhere(request: HttpRequest) -> dict[str, Any]:
    """Context for all templates; what costs a query is asked only where it is shown."""
    return {
        "room": _room(request),
        "practice_lab": cache(_practice_lab),
        "outage": cache(outage.present),
    }


def _room(request: HttpRequest) -> str:
    match = request.resolver_match
    module = match.func.__module__.rpartition(".")[2] if match else ""
    return _ROOMS.get(module, module)


def _practice_lab() -> bool:
    return Node.objects.filter(simulated=True).exists()
