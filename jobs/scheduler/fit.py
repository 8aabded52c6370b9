"""Which nodes could hold a request at all: the hard constraints, one short function each.

All of it looks at what nodes are, not at what is free on them right now (that is `room.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jobs.scheduler.gpu_models import is_instance, is_model, is_of, names_instance
from jobs.scheduler.snapshot import Node
from jobs.scheduler.topology import above
from jobs.scheduler.words import count, listed, memory
from jobs.spec import Resources

_DIGITS = re.compile(r"(\d+)")


def name_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Orders node names as people do: n2 before n10."""
    parts = _DIGITS.split(name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts if part)


def usable_models(node: Node, asked: Resources) -> frozenset[str]:
    """The GPU models of this node that may serve the request.

    A feature that is no feature of the node but the name of a model narrows the choice too.
    MIG instances serve whoever names one.
    """
    wanted = [name for name in asked.features if name not in node.features]
    if asked.gpu_model is not None:
        wanted.append(asked.gpu_model)
    return frozenset(
        model
        for model in {gpu.model for gpu in node.gpus}
        if all(is_of(name, model) for name in wanted)
        and (not is_instance(model) or any(names_instance(name, model) for name in wanted))
    )


def narrowed(node: Node, models: frozenset[str] | None) -> Node:
    """The node as those see it who may use GPUs of these models only; None: of all."""
    if models is None or all(gpu.model in models for gpu in node.gpus):
        return node
    return replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.model in models))


def is_allowed(node: Node, asked: Resources) -> bool:
    """Neither left out of a list of nodes nor on the list of those to avoid."""
    return node.name not in asked.not_nodes and (
        not asked.only_nodes or node.name in asked.only_nodes
    )


def has_features(node: Node, asked: Resources) -> bool:
    """Every feature, be it the node's own or the name of a GPU model."""
    return all(
        name in node.features or any(is_of(name, gpu.model) for gpu in node.gpus)
        for name in asked.features
    )


def has_gpus(node: Node, asked: Resources) -> bool:
    """Enough GPUs of the right model, free or not."""
    return asked.gpus_per_node == 0 or gpu_count(node, asked) >= asked.gpus_per_node


def has_shards(node: Node, asked: Resources) -> bool:
    """A GPU of the right model that is divided in at least so many parts, free or not."""
    return asked.shards == 0 or most_shards(node, asked) >= asked.shards


def has_cpus(node: Node, asked: Resources) -> bool:
    """Enough CPUs, free or not."""
    return node.cpus >= asked.cpus


def has_memory(node: Node, asked: Resources) -> bool:
    """Enough memory, free or not."""
    return asked.memory_mib is None or node.memory_mib >= asked.memory_mib


def gpu_count(node: Node, asked: Resources) -> int:
    """How many GPUs of this node may serve the request, free or not."""
    models = usable_models(node, asked)
    return sum(1 for gpu in node.gpus if gpu.model in models)


def most_shards(node: Node, asked: Resources) -> int:
    """Of the GPUs of this node that may serve the request, the parts of the most divided one."""
    models = usable_models(node, asked)
    return max((gpu.shards for gpu in node.gpus if gpu.model in models), default=0)


CONSTRAINTS = (is_allowed, has_features, has_gpus, has_shards, has_cpus, has_memory)


def could_hold(node: Node, asked: Resources) -> bool:
    """Whether the node, empty and available, could hold its part of the request."""
    return all(holds(node, asked) for holds in CONSTRAINTS)


def refuse(asked: Resources, nodes: Iterable[Node], partition: str | None = None) -> str | None:
    """Why the request can never fit, with the largest that would; None when it can.

    Nodes that are down or draining count: they come back. `partition` None looks at all nodes.
    """
    left = sorted(
        (node for node in nodes if partition in (None, node.partition)),
        key=lambda node: (name_key(node.name), node.id),
    )
    where = f"partition {partition}" if partition is not None else "this cluster"
    if not left:
        return f"{where} has no nodes"
    for holds in CONSTRAINTS:
        holding = [node for node in left if holds(node, asked)]
        if len(holding) < asked.nodes:
            return _refusal(holds.__name__, asked, left, holding, where)
        left = holding
    return None if is_near(asked, left) else _refuse_far(asked, left, where)


def remedy(asked: Resources, nodes: Iterable[Node], partition: str) -> str:
    """What would have to be done before a request that is refused could fit."""
    able = [node for node in nodes if node.partition == partition and could_hold(node, asked)]
    unknown = [] if is_near(asked, able) else _unknown(asked, able)
    if not unknown:
        return "such a node is added"
    named = listed(sorted((node.name for node in unknown), key=name_key))
    return f"such a node is added, or an admin sets the switches of {named}"


def leave_too_few(
    asked: Resources, nodes: Sequence[Node], partition: str, models: frozenset[str] | None
) -> bool:
    """Whether a request that fits does not with GPUs of these models only; None: of all."""
    takes_gpus = asked.gpus_per_node or asked.shards or asked.exclusive
    if models is None or not takes_gpus or refuse(asked, nodes, partition) is not None:
        return False
    seen = [(node, narrowed(node, models)) for node in nodes]
    # A whole node comes with all of its GPUs.
    left = [narrow for node, narrow in seen if narrow is node or not asked.exclusive]
    return refuse(asked, left, partition) is not None


def is_near(asked: Resources, nodes: Sequence[Node]) -> bool:
    """Whether enough of these nodes hang on as few leaf switches as the request allows."""
    return asked.max_switches is None or _most_near(asked, nodes) >= asked.nodes


def _most_near(asked: Resources, nodes: Sequence[Node]) -> int:
    leaves = Counter(map(above, nodes))
    return sum(number for _, number in leaves.most_common(asked.max_switches))


def _unknown(asked: Resources, nodes: Sequence[Node]) -> list[Node]:
    """Those whose switches are not known, where it might fit if they were."""
    unknown = [node for node in nodes if not node.switches]
    known = [node for node in nodes if node.switches]
    return unknown if _most_near(asked, known) + len(unknown) >= asked.nodes else []


def _refuse_far(asked: Resources, left: Sequence[Node], where: str) -> str:
    want = f"asks for {count(asked.nodes, 'node')} on {switches(asked)}"
    unknown = _unknown(asked, left)
    if len(unknown) == len(left):
        return f"{want}; which nodes of {where} share a switch is not known"
    have = "has" if asked.max_switches == 1 else "have"
    most = count(_most_near(asked, left), "such node")
    found = f"{want}; no {switches(asked).removeprefix('1 ')} of {where} {have} more than {most}"
    if not unknown:
        return found
    return f"{found}, and the switches of {listed(node.name for node in unknown)} are not known"


def _refusal(
    constraint: str, asked: Resources, left: Sequence[Node], holding: Sequence[Node], where: str
) -> str:
    """`left` meets all constraints before this one, of which only `holding` meets it too."""
    if len(left) < asked.nodes:
        return f"asks for {asked.nodes} nodes; {where} has {len(left)}"
    if constraint == "is_allowed":
        return _refuse_names(asked, left, holding, where)
    if holding and asked.nodes > 1:
        have = f"{count(len(holding), 'node')} ({listed(node.name for node in holding)})"
        return (
            f"asks for {asked.nodes} nodes with {_want(constraint, asked)} each; only {have} "
            + ("has that" if len(holding) == 1 else "have that")
        )
    if constraint == "has_features":
        known = sorted({name for node in left for name in node.features})
        models = sorted({gpu.model for node in left for gpu in node.gpus})
        return (
            f"asks for {_want(constraint, asked)}; no node of {where} has that. "
            f"There are: {listed(known + models, 12) or 'no features and no GPUs'}"
        )
    return _refuse_size(constraint, asked, left, where)


def _refuse_names(
    asked: Resources, left: Sequence[Node], holding: Sequence[Node], where: str
) -> str:
    names = {node.name for node in left}
    unknown = [name for name in asked.only_nodes if name not in names]
    if unknown:
        return f"asks for node {listed(unknown)}; {where} has {listed(n.name for n in left)}"
    return (
        f"asks for {count(asked.nodes, 'node')} but rules out all except "
        f"{listed(node.name for node in holding) or 'none'}"
    )


def _refuse_size(constraint: str, asked: Resources, left: Sequence[Node], where: str) -> str:
    want = _want(constraint, asked)
    if constraint == "has_gpus":
        largest = max(left, key=lambda node: gpu_count(node, asked))
        size = gpu_count(largest, asked)
        if size == 0:
            return _refuse_model(asked, left, where)
        have = str(size)
    elif constraint == "has_shards":
        largest = max(left, key=lambda node: most_shards(node, asked))
        size = most_shards(largest, asked)
        if size == 0:
            return _refuse_shards(asked, left, where)
        have = f"GPUs of {count(size, 'part')}"
    elif constraint == "has_cpus":
        largest = max(left, key=lambda node: node.cpus)
        have = str(largest.cpus)
    else:
        largest = max(left, key=lambda node: node.memory_mib)
        have = memory(largest.memory_mib)
    which = (
        "the largest such node"
        if constraint not in ("has_gpus", "has_shards") and _narrowed(asked)
        else "the largest node"
    )
    return f"asks for {want} on one node; {which} ({largest.name}) has {have}"


def _refuse_model(asked: Resources, left: Sequence[Node], where: str) -> str:
    models = sorted({gpu.model for node in left for gpu in node.gpus})
    model = asked.gpu_model
    if model and models and not any(is_model(model, known) for known in models):
        return f"asks for a GPU of model {model!r}; {where} has none, only {listed(models)}"
    hint = ""
    if not model and any(map(is_instance, models)):
        hint = "; who wants a MIG instance names it, as in --gres=gpu:1g.10gb:1"
    return f"asks for {gpus(asked)}; {where} has {listed(models) or 'no GPUs'}{hint}"


def _refuse_shards(asked: Resources, left: Sequence[Node], where: str) -> str:
    divided = sorted({gpu.model for node in left for gpu in node.gpus if gpu.shards})
    such = "such GPU" if asked.gpu_model or asked.features else "GPU"
    others = f"; divided are {listed(divided)}" if divided else ""
    return f"asks for {shards(asked)}; no {such} of {where} is divided into parts{others}"


def _narrowed(asked: Resources) -> bool:
    named = asked.features or asked.only_nodes or asked.not_nodes
    return bool(asked.gpus_per_node or asked.shards or named)


def _want(constraint: str, asked: Resources) -> str:
    if constraint == "has_features":
        return " and ".join(asked.features)
    if constraint == "has_cpus":
        return count(asked.cpus, "CPU")
    if constraint == "has_memory":
        return f"{memory(asked.memory_mib or 0)} of memory"
    return shards(asked) if constraint == "has_shards" else gpus(asked)


def gpus(asked: Resources) -> str:
    """`2 GPUs`, `1 a100 GPU`: per node."""
    model = f"{asked.gpu_model} " if asked.gpu_model else ""
    return count(asked.gpus_per_node, f"{model}GPU")


def shards(asked: Resources) -> str:
    """`2 parts of a GPU`, `1 part of a GPU (a100)`: per node."""
    model = f" ({asked.gpu_model})" if asked.gpu_model else ""
    return f"{count(asked.shards, 'part')} of a GPU{model}"


def switches(asked: Resources) -> str:
    """`1 switch`, `2 switches`: that its nodes may hang on."""
    return "1 switch" if asked.max_switches == 1 else f"{asked.max_switches} switches"
