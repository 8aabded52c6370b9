"""What is free on a node while a plan is being made. The only mutable state of the scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.scheduler.fit import name_key, usable_models
from jobs.scheduler.snapshot import Gpu, Node, Placement
from jobs.spec import Resources


class Room:
    """One node with running counters of what is left of it."""

    __slots__ = ("cpus", "exclusive", "free", "gpus", "jobs", "memory_mib", "node", "order")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.order = (name_key(node.name), node.id)
        self.cpus = node.cpus_free
        self.memory_mib = node.memory_free_mib
        self.exclusive = node.exclusive
        self.jobs = set(node.jobs) | {gpu.job_id for gpu in node.gpus if gpu.job_id is not None}
        self.free: dict[str, list[Gpu]] = {}
        """Free GPUs by model, each list by index."""
        for gpu in sorted(node.gpus, key=_gpu_order):
            models = self.free.setdefault(gpu.model, [])
            if gpu.job_id is None:
                models.append(gpu)
        self.gpus = sum(map(len, self.free.values()))

    def copy(self) -> Room:
        """Another with the same counters, to try things on."""
        twin = Room.__new__(Room)
        twin.node, twin.order = self.node, self.order
        twin.cpus, twin.memory_mib, twin.exclusive = self.cpus, self.memory_mib, self.exclusive
        twin.jobs, twin.gpus = set(self.jobs), self.gpus
        twin.free = {model: list(gpus) for model, gpus in self.free.items()}
        return twin

    def free_gpus(self, asked: Resources) -> int:
        """Free GPUs that may serve the request."""
        models = usable_models(self.node, asked)
        return sum(len(gpus) for model, gpus in self.free.items() if model in models)

    def fits(self, asked: Resources) -> bool:
        """Whether the node could take its part of the request now.

        Only for nodes that `fit.could_hold` it: names and features are not looked at again.
        """
        if self.exclusive or self.cpus < asked.cpus or self.gpus < asked.gpus_per_node:
            return False
        if asked.memory_mib is not None and self.memory_mib < asked.memory_mib:
            return False
        if asked.exclusive and self.jobs:
            return False
        return asked.gpus_per_node == 0 or self.free_gpus(asked) >= asked.gpus_per_node

    def snugness(self) -> tuple[object, ...]:
        """Sorts the tightest first: few free GPUs, then few free CPUs, then by name."""
        return (self.gpus, self.cpus, self.order)

    def take(self, job_id: int, asked: Resources) -> Placement:
        """Give the job its part. The caller knows that it `fits`."""
        chosen = self._choose(asked)
        for gpu in chosen:
            self.free[gpu.model].remove(gpu)
        placement = Placement(
            node_id=self.node.id,
            gpu_uuids=tuple(gpu.uuid for gpu in chosen),
            cpus=self.cpus if asked.exclusive else asked.cpus,
            memory_mib=asked.memory_mib or 0,
        )
        self.gpus -= len(chosen)
        self.cpus -= placement.cpus
        self.memory_mib -= placement.memory_mib
        self.exclusive = asked.exclusive
        self.jobs.add(job_id)
        return placement

    def release(self, job_id: int, gpus: Iterable[Gpu], cpus: int, memory_mib: int) -> None:
        """The job is gone. A node that nobody is left on is whole again."""
        self.jobs.discard(job_id)
        for gpu in gpus:
            self.free[gpu.model].append(gpu)
            self.gpus += 1
        self.cpus = min(self.node.cpus, self.cpus + cpus)
        self.memory_mib = min(self.node.memory_mib, self.memory_mib + memory_mib)
        if not self.jobs:
            self.cpus, self.memory_mib, self.exclusive = (
                self.node.cpus,
                self.node.memory_mib,
                False,
            )

    def _choose(self, asked: Resources) -> list[Gpu]:
        """All GPUs of a whole node; else of one model if any has enough, scarcest model first."""
        if asked.exclusive:
            return sorted((gpu for gpus in self.free.values() for gpu in gpus), key=_gpu_order)
        if asked.gpus_per_node == 0:
            return []
        models = usable_models(self.node, asked)
        piles = [gpus for model, gpus in self.free.items() if model in models]
        enough = [pile for pile in piles if len(pile) >= asked.gpus_per_node]
        if enough:
            pile = min(enough, key=lambda gpus: (len(gpus), _gpu_order(gpus[0])))
        else:
            pile = [gpu for gpus in piles for gpu in gpus]
        return sorted(pile, key=_gpu_order)[: asked.gpus_per_node]


def _gpu_order(gpu: Gpu) -> tuple[int, str]:
    return (gpu.index, gpu.uuid)
