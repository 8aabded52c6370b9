"""Pods placed by a plan: by hand, and never more than there is."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from jobs.scheduler.plan import plan
from jobs.scheduler.simulate.openb import Machine, Pod, allocated, snapshot
from tests.jobs.scheduler.clusters import NOW

T4, V100 = "T4", "V100M16"


def test_by_hand() -> None:
    machines = (Machine("a", 8000, 1024, 1, T4), Machine("b", 8000, 1024, 2, V100))
    either, one = frozenset({T4, V100}), frozenset({T4})
    pods = [Pod("p0", 1000, 64, 1, 1000, either)]
    pods += [Pod(f"p{number}", 1000, 64, 1, 1000, one) for number in (1, 2, 3)]
    # The first leaves the T4 to one of those that must have it.
    assert allocated(pods, machines) == 2 / 3
    assert allocated([*pods, Pod("p4", 1000, 64, 1, 460)], machines) == 2.46 / 3


def test_cpus_and_memory_limit() -> None:
    machines = (Machine("a", 2000, 100, 4, T4),)
    assert allocated([Pod(f"p{n}", 1000, 10, 1, 1000) for n in range(4)], machines) == 2 / 4
    assert allocated([Pod(f"p{n}", 10, 40, 1, 1000) for n in range(4)], machines) == 2 / 4
    assert allocated([Pod("p", 7001, 0, 1, 1000)], machines) == 0


pods = st.builds(
    Pod,
    name=st.just("p"),
    cpu_milli=st.integers(0, 9000),
    memory_mib=st.integers(0, 600),
    gpus=st.just(1),
    gpu_milli=st.integers(1, 1000),
    models=st.sampled_from([frozenset[str](), frozenset({T4}), frozenset({T4, V100})]),
)
machines = st.builds(
    Machine,
    name=st.just("m"),
    cpu_milli=st.integers(0, 20_000),
    memory_mib=st.integers(0, 2048),
    gpus=st.integers(1, 3),
    model=st.sampled_from([T4, V100, "G2"]),
)


@given(st.lists(pods, min_size=1, max_size=12), st.lists(machines, min_size=1, max_size=4))
def test_no_node_gives_more_than_it_has(queue: list[Pod], cluster: list[Machine]) -> None:
    taken: dict[str, int] = defaultdict(int)
    cpus: dict[int, int] = defaultdict(int)
    memory: dict[int, int] = defaultdict(int)
    for start in plan(snapshot(queue, cluster), NOW, explained=False).starts:
        pod, (part,) = queue[start.job_id], start.placements
        machine = cluster[part.node_id - 1]
        assert not pod.models or machine.model in pod.models
        for uuid in part.gpu_uuids:
            taken[uuid] += pod.gpu_milli
        cpus[part.node_id] += pod.cpu_milli
        memory[part.node_id] += pod.memory_mib
    assert all(milli <= 1000 for milli in taken.values())
    assert all(used <= cluster[at - 1].cpu_milli for at, used in cpus.items())
    assert all(used <= cluster[at - 1].memory_mib for at, used in memory.items())
    assert allocated(queue, cluster) == sum(taken.values()) / sum(1000 * m.gpus for m in cluster)
