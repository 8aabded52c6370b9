"""From what was written to what each node must give: totals are spread over the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.directives.lines import Notice
from jobs.directives.options import Given
from jobs.rules import SpecError

_AS_WRITTEN = (
    "gpu_model",
    "cpus_per_task",
    "exclusive",
    "features",
    "only_nodes",
    "not_nodes",
    "shards",
    "max_switches",
)


class Resolved:
    """`values`: fields of `Resources` that were given or follow; each error names its giver."""

    def __init__(self, given: Mapping[str, Given]) -> None:
        self._given = given
        self.values: dict[str, Any] = {}
        self.givers: dict[str, Given] = {}
        self.errors: list[SpecError] = []
        self.notices: list[Notice] = []
        for name in _AS_WRITTEN:
            if name in given and given[name].value is not None:
                self._set(name, given[name].value, given[name])
        self._nodes_and_tasks()
        self._gpus()
        self._memory()

    def _set(self, name: str, value: Any, giver: Given) -> None:
        self.values[name] = value
        self.givers[name] = giver

    def _number(self, name: str) -> int:
        return int(self.values.get(name, 1))

    def _note(self, giver: Given, message: str) -> None:
        self.notices.append(Notice(giver.field, message, giver.line))

    def _nodes_and_tasks(self) -> None:
        nodes, total = self._given.get("nodes"), self._given.get("ntasks")
        per_node, named = self._given.get("tasks_per_node"), self._given.get("only_nodes")
        if nodes:
            self._set("nodes", nodes.value, nodes)
        elif total and per_node:
            if not self._divides(total, per_node.value, "tasks", "tasks a node"):
                return
            self._set("nodes", total.value // per_node.value, total)
        elif named:
            self._set("nodes", len(named.value), named)
        if per_node:
            self._set("tasks_per_node", per_node.value, per_node)
        if nodes and named and len(named.value) > nodes.value:
            self._note(named, f"{nodes.value} of these {len(named.value)} nodes will be used")
        if not total:
            return
        on = self._number("nodes")
        if nodes and per_node and total.value != on * per_node.value:
            self.errors.append(
                total.error(
                    f"asks for {total.value} tasks, but {on} nodes with {per_node.value} each "
                    f"are {on * per_node.value}; leave one of the three out"
                )
            )
        elif not per_node and self._divides(total, on, "tasks", "nodes"):
            self._set("tasks_per_node", total.value // on, total)
            if on == 1 and total.value > 1 and not nodes:
                self._note(
                    total, f"all {total.value} tasks run on one node; give --nodes to spread them"
                )

    def _divides(self, total: Given, by: int, things: str, groups: str) -> bool:
        if total.value % by == 0:
            return True
        less, more = total.value // by * by, (total.value // by + 1) * by
        right = f"{less} or {more}" if less else str(more)
        self.errors.append(
            total.error(
                f"{total.value} {things} can't be spread evenly over {by} {groups}; "
                f"ask for {right}, or give the number per node"
            )
        )
        return False

    def _gpus(self) -> None:
        on, tasks = self._number("nodes"), self._number("tasks_per_node")
        found: list[tuple[int, Given]] = [
            (self._given[name].value, self._given[name])
            for name in ("gpus_per_node", "gres")
            if name in self._given and self._given[name].value is not None
        ]
        total, per_task = self._given.get("gpus"), self._given.get("gpus_per_task")
        if per_task:
            found.append((per_task.value * tasks, per_task))
            if tasks > 1 and per_task.value:
                self._note(
                    per_task,
                    f"each of the {tasks} tasks of a node sees all {per_task.value * tasks} GPUs; "
                    "choose by LOCAL_RANK",
                )
        if total and self._divides(total, on, "GPUs", "nodes"):
            found.append((total.value // on, total))
        if not found:
            return
        self._set("gpus_per_node", *found[0])
        for number, giver in found[1:]:
            if number != found[0][0]:
                self.errors.append(
                    giver.error(
                        f"comes to {number} GPUs per node, but {found[0][1].field} asks for "
                        f"{found[0][0]}; leave one of them out"
                    )
                )

    def _memory(self) -> None:
        cpus = self._number("tasks_per_node") * self._number("cpus_per_task")
        factors = {
            "memory_mib": 1,
            "memory_per_cpu": cpus,
            "memory_per_gpu": int(self.values.get("gpus_per_node", 0)),
        }
        given = [
            (self._given[name], times) for name, times in factors.items() if name in self._given
        ]
        for giver, _ in given[1:]:
            self.errors.append(giver.error(f"{given[0][0].field} is given too; leave one out"))
        if not given:
            return
        giver, times = given[0]
        if giver.value == 0:
            self._note(
                giver,
                "0 reserves no memory and sets no limit; add --exclusive to have the node's memory",
            )
        elif times == 0:
            self.errors.append(giver.error("needs GPUs to multiply with; use --mem"))
        else:
            self._set("memory_mib", giver.value * times, giver)
