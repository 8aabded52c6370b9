"""The verb `probe`: what this machine is.

Input: nothing. Output: `hostname`, `python`, `cpus` (usable by this account), `memory_mib`, `os`,
`kernel`, `user`, `home`, `boot_id`, `driver` (version or null), `topology` (text or null),
`gpus`: `index`, `uuid`, `model`, `memory_mib`, `pci_bus_id`, `mig_mode` (true, false or null) and
`mig`: `index`, `name`, `uuid` and `memory_mib` of each instance; `problems` in words.
"""

import os
import re
import sys

from . import gpus, processes, programs
from .observe import _memory
from .spool import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WITHIN_S = 20.0
"""A driver without persistence mode takes seconds to wake up."""
_BASIC = "index,uuid,name,memory.total,pci.bus_id,driver_version"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_GPU_LINE = re.compile(r"^GPU \d+:.*\(UUID: (GPU-[^)]+)\)")
_MIG_LINE = re.compile(r"^\s+MIG (.+?)\s+Device\s+(\d+):\s+\(UUID: (MIG-[^)]+)\)")
_XML_GPU = re.compile(r'<gpu id="([^"]+)">(.*?)</gpu>', re.DOTALL)
_XML_MIG = re.compile(r"<mig_device>(.*?)</mig_device>", re.DOTALL)
_XML_INDEX = re.compile(r"<index>(\d+)</index>")
_XML_MEMORY = re.compile(r"<fb_memory_usage>\s*<total>(\d+) MiB</total>")


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Look at the machine once, thoroughly."""
    problems: "list[str]" = []
    system = os.uname()
    answer: "dict[str, Any]" = {
        "hostname": system.nodename,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": _memory().get(b"MemTotal"),
        "os": _os_name(),
        "kernel": system.release,
        "user": gpus._user_of(os.getpid()),
        "home": processes.home(),
        "boot_id": spool.boot_id,
        "driver": None,
        "topology": None,
        "gpus": [],
        "problems": problems,
    }
    path = programs.find("nvidia-smi")
    if path is None:
        problems.append("no nvidia-smi on the PATH: a node without NVIDIA GPUs")
    else:
        _ask_cards(path, answer, problems)
    return answer


def _os_name() -> str:
    for line in (
        (processes.read_proc("/etc/os-release") or b"").decode("utf-8", "replace").split("\n")
    ):
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip().strip("\"'")
    return os.uname().sysname


def _ask_cards(path: str, answer: "dict[str, Any]", problems: "list[str]") -> None:
    def start(*arguments: str) -> programs.Program:
        return programs.Program([path] + list(arguments), WITHIN_S)

    basic = start("--query-gpu=" + _BASIC, gpus._FORMAT)
    modes = start("--query-gpu=uuid,mig.mode.current", gpus._FORMAT)
    names = start("-L")
    matrix = start("topo", "-m")
    text, problem = basic.answer()
    if text is None:
        problems.append(problem)
    # An old driver knows no MIG and refuses that question alone; so it is asked apart.
    mig_modes = {row[0]: row[1] for row in gpus.rows(modes.answer()[0] or "", 2)}
    instances = mig_instances(names.answer()[0] or "")
    memory: "dict[tuple[str, int], int]" = {}
    if instances:
        # Long, and only this way does it tell how large an instance is.
        memory = mig_memory(start("-q", "-x").answer()[0] or "")
    for cells in gpus.rows(text or "", 6):
        uuid = cells[1]
        if uuid is None or cells[0] is None:
            continue
        mode = mig_modes.get(uuid)
        parts = instances.get(uuid, [])
        for part in parts:
            part["memory_mib"] = memory.get(((cells[4] or "").lower(), part["index"]))
        answer["driver"] = cells[5]
        answer["gpus"].append(
            {
                "index": gpus.whole(cells[0]),
                "uuid": uuid,
                "model": cells[2],
                "memory_mib": gpus.whole(cells[3]),
                "pci_bus_id": cells[4],
                "mig_mode": None if mode is None else mode.lower() == "enabled",
                "mig": parts,
            }
        )
    topology, problem = matrix.answer()
    answer["topology"] = None if topology is None else _ANSI.sub("", topology)
    if topology is None and answer["gpus"]:
        problems.append(problem)


def mig_instances(text: str) -> "dict[str, list[dict[str, Any]]]":
    """From `nvidia-smi -L`: the MIG instances of each GPU by its UUID."""
    found: "dict[str, list[dict[str, Any]]]" = {}
    uuid = ""
    for line in text.splitlines():
        card = _GPU_LINE.match(line)
        if card:
            uuid = card.group(1)
        instance = _MIG_LINE.match(line)
        if instance and uuid:
            name, index, own = instance.groups()
            found.setdefault(uuid, []).append({"index": int(index), "name": name, "uuid": own})
    return found


def mig_memory(text: str) -> "dict[tuple[str, int], int]":
    """From `nvidia-smi -q -x`: the MiB of each MIG instance by its GPU's bus id and its index."""
    found = {}
    for bus, card in _XML_GPU.findall(text):
        for instance in _XML_MIG.findall(card):
            index, memory = _XML_INDEX.search(instance), _XML_MEMORY.search(instance)
            if index and memory:
                found[bus.lower(), int(index.group(1))] = int(memory.group(1))
    return found
