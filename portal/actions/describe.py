"""Say of nodes what no probe can find: their features, and the switches that they hang on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction

from jobs.rules import SpecError, check_words
from jobs.scheduler.topology import contradiction
from jobs.scheduler.words import listed, sentence
from portal import hints, live
from portal.actions import passes
from portal.actions.changes import applied
from portal.models import Event, Node, User

MOST_FEATURES = 64
MOST_SWITCHES = 8
"""From a node up. Fabrics have three levels or four."""
Names = Sequence[str]


@transaction.atomic
def describe(
    *,
    nodes: Sequence[Node],
    actor: User | None,
    now: datetime,
    features: Names | None = None,
    switches: Names | None = None,
) -> list[Node]:
    """The same of all of these; None leaves it as it is. Switches are the nearest first, and empty
    where they are not known. Those nodes of which anything changes.

    Raises `ValidationError`, by field: also where a switch would not have the same above it on
    every node, since no tree is like that.
    """
    # A pass under way places jobs by what it has read.
    passes.wait()
    given = {"features": features, "switches": switches}
    # In their order; a feature that is named twice is one.
    columns = {name: list(dict.fromkeys(one)) for name, one in given.items() if one is not None}
    rows = Node.objects.select_for_update(no_key=True).filter(pk__in=[node.pk for node in nodes])
    found = list(rows.order_by("pk"))
    _check(features or (), switches or (), found)
    changed = [node for node in found if _set(node, columns, actor, now)]
    if changed:
        live.changed("nodes", *(f"node-{node.pk}" for node in changed))
        hints.schedule()
    return changed


def _set(node: Node, columns: dict[str, list[str]], actor: User | None, now: datetime) -> bool:
    changes = applied(node, columns)
    if changes:
        node.save(update_fields=list(columns))
        Event.objects.create(at=now, node=node, kind="node set", actor=actor, changes=changes)
    return bool(changes)


def _check(features: Names, switches: Names, nodes: Sequence[Node]) -> None:
    errors = {
        "features": _wrong("features", features, MOST_FEATURES),
        "switches": _wrong("switches", switches, MOST_SWITCHES) or _misfit(switches, nodes),
    }
    if any(errors.values()):
        raise ValidationError({name: wrong for name, wrong in errors.items() if wrong})


def _wrong(name: str, given: Names, most: int) -> str:
    twice = list(dict.fromkeys(one for one in given if given.count(one) > 1))
    if name == "switches" and twice:
        return f"{listed(twice)} cannot be above itself; name each switch once, the nearest first."
    if len(given) > most:
        return f"These are {len(given):,}; a node may have {most} {name} at most."
    try:
        check_words(name, tuple(given))
    except SpecError as error:
        return sentence(error.message)
    return ""


def _misfit(switches: Names, nodes: Sequence[Node]) -> str:
    """Why these make no tree with those above all other nodes."""
    others = Node.objects.exclude(pk__in=[node.pk for node in nodes]).order_by("name")
    told = others.values_list("name", "switches") if switches else ()
    why = contradiction(switches, told)
    if why is None:
        return ""
    advice = (
        "Above a switch is the same for all nodes: mend the one that is wrong. To put another "
        "switch in between, empty the switches of all nodes below it first."
    )
    return f"{sentence(why)} {advice}"
