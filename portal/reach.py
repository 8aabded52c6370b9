"""From a node's row to an engine that reaches it. One warm connection per node and login."""

from __future__ import annotations

import threading
from typing import Any

from django.conf import settings

from jobs.engines.contract import Engine
from jobs.engines.ssh import ShepherdEngine
from jobs.nodes.local import LocalTransport
from jobs.nodes.ssh import SshAddress, SshTransport
from jobs.nodes.transport import NodeError, Transport
from portal.models import Node

_engines: dict[int, tuple[tuple[object, ...], ShepherdEngine]] = {}
_lock = threading.Lock()


def engine(node: Node) -> Engine:
    """The engine for this node, kept until the way to it changes. Connects on first use."""
    way = (
        node.transport, node.host, node.port, node.login, node.host_key,
        str(node.jump), node.spool,
    )  # fmt: skip
    with _lock:
        kept = _engines.get(node.pk)
        if kept and kept[0] == way:
            return kept[1]
        made = ShepherdEngine(transport(node), node.spool)
        _engines[node.pk] = (way, made)
    if kept:
        kept[1].close()
    return made


def forget(node_id: int) -> None:
    """Close what is open to a node that was removed."""
    with _lock:
        kept = _engines.pop(node_id, None)
    if kept:
        kept[1].close()


def transport(node: Node) -> Transport:
    """A new, unconnected transport to this node. Raises `NodeError` without a usable key."""
    if node.transport == Node.Transport.LOCAL:
        return LocalTransport()
    address = SshAddress(node.host, node.port, node.login, node.host_key, hops(node.jump))
    try:
        return SshTransport(address, settings.SSH_KEY)
    except (OSError, ValueError) as error:
        raise NodeError(f"Carrel's SSH key or a pinned host key can't be used: {error}.") from error


def hops(jump: list[dict[str, Any]]) -> tuple[SshAddress, ...]:
    """The bastions of a node's row, each reached through those before it."""
    return tuple(SshAddress(**hop) for hop in jump)
