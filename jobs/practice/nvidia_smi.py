#!/usr/bin/env -S python3 -IS
"""A stand-in for `nvidia-smi` on machines without GPUs; it speaks the real one's query interface.

Next to the program, under its own name with `.json` added, lies what it pretends to have:

    {"mark": "NAME=value",
     "gpus": [{"index": 0, "uuid": "GPU-…", "name": "…", "memory_mib": 40960,
               "pci_bus_id": "00000000:07:00.0", "power_limit_w": 400}]}

`mark` is an entry in the environment of this machine's processes, or of those they stem from;
empty: all processes of the computer are this machine's. `power_limit_w` may be left out.

Use is derived from the processes that really run: those whose first environment names a GPU in
CUDA_VISIBLE_DEVICES, by UUID or index, shells that only wait for others left aside.

    utilization.gpu     their CPU time since the last look, in percent of one core, at most 100
    utilization.memory  0.6 * utilization.gpu
    memory.used         3 MiB, and for each process 400 MiB and its resident memory
    temperature.gpu     30 + 2 * (index modulo 4) + 0.42 * utilization.gpu
    power.draw          50 W, and utilization.gpu percent of 90 % of what is left to the limit
    clocks.current.sm   210 MHz, rising with utilization.gpu to 1410 MHz
"""

from __future__ import annotations

import json
import os
import sys
import time

MYPY = False
if MYPY:  # typing would lengthen each start by a fifth, and this starts every few seconds
    from collections.abc import Callable, Sequence
    from typing import Any

    Row = dict[str, Any]
    Fields = dict[str, tuple[str, Callable[[Row], Any]]]

DRIVER = "550.127.05"
CONTEXT_MIB = 400
RESERVED_MIB = 3
DEFAULT_POWER_LIMIT_W = 400
# Two looks closer together than this would divide clock ticks of 10 ms by next to nothing.
MIN_INTERVAL_S = 0.5
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024

# field -> (unit or "", value of one GPU)
GPU_FIELDS: Fields = {
    "index": ("", lambda gpu: gpu["index"]),
    "count": ("", lambda gpu: gpu["count"]),
    "uuid": ("", lambda gpu: gpu["uuid"]),
    "gpu_uuid": ("", lambda gpu: gpu["uuid"]),
    "name": ("", lambda gpu: gpu["name"]),
    "gpu_name": ("", lambda gpu: gpu["name"]),
    "pci.bus_id": ("", lambda gpu: gpu["pci_bus_id"]),
    "gpu_bus_id": ("", lambda gpu: gpu["pci_bus_id"]),
    "driver_version": ("", lambda gpu: DRIVER),
    "timestamp": ("", lambda gpu: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    "memory.total": ("MiB", lambda gpu: gpu["memory_mib"]),
    "memory.used": ("MiB", lambda gpu: gpu["used_mib"]),
    "memory.free": ("MiB", lambda gpu: gpu["memory_mib"] - gpu["used_mib"]),
    "utilization.gpu": ("%", lambda gpu: gpu["busy"]),
    "utilization.memory": ("%", lambda gpu: int(0.6 * gpu["busy"])),
    "temperature.gpu": ("", lambda gpu: temperature(gpu)),
    "power.draw": ("W", lambda gpu: f"{power(gpu):.2f}"),
    "power.limit": ("W", lambda gpu: f"{power_limit(gpu):.2f}"),
    "clocks.current.sm": ("MHz", lambda gpu: 210 + 12 * gpu["busy"]),
    "clocks.sm": ("MHz", lambda gpu: 210 + 12 * gpu["busy"]),
    "ecc.errors.uncorrected.volatile.total": ("", lambda gpu: 0),
    "mig.mode.current": ("", lambda gpu: "Disabled"),
    "compute_mode": ("", lambda gpu: "Default"),
    "persistence_mode": ("", lambda gpu: "Enabled"),
    "pstate": ("", lambda gpu: "P0"),
}
APP_FIELDS: Fields = {
    "gpu_uuid": ("", lambda app: app["gpu"]["uuid"]),
    "gpu_name": ("", lambda app: app["gpu"]["name"]),
    "gpu_bus_id": ("", lambda app: app["gpu"]["pci_bus_id"]),
    "pid": ("", lambda app: app["pid"]),
    "process_name": ("", lambda app: app["name"]),
    "name": ("", lambda app: app["name"]),
    "used_gpu_memory": ("MiB", lambda app: app["mib"]),
    "used_memory": ("MiB", lambda app: app["mib"]),
}


def temperature(gpu: Row) -> int:
    return int(30 + 2 * (gpu["index"] % 4) + 0.42 * gpu["busy"])


def power_limit(gpu: Row) -> float:
    return float(gpu.get("power_limit_w", DEFAULT_POWER_LIMIT_W))


def power(gpu: Row) -> float:
    return 50 + 0.9 * (power_limit(gpu) - 50) * float(gpu["busy"]) / 100


def environment(pid: str) -> list[bytes]:
    with open(f"/proc/{pid}/environ", "rb") as handle:
        return handle.read().split(b"\0")


def visible(entries: list[bytes]) -> list[str]:
    """What CUDA_VISIBLE_DEVICES names."""
    for entry in entries:
        if entry.startswith(b"CUDA_VISIBLE_DEVICES="):
            names = entry.decode(errors="replace").partition("=")[2]
            return [name.strip() for name in names.split(",") if name.strip()]
    return []


def inspect(pid: str, mark: bytes) -> Row:
    """One process of the computer."""
    entries = environment(pid)
    with open(f"/proc/{pid}/stat") as handle:
        name, _, rest = handle.read().partition(" (")[2].rpartition(")")
    stat = rest.split()
    return {
        "pid": int(pid),
        "comm": name,
        "parent": int(stat[1]),
        "ticks": int(stat[11]) + int(stat[12]),
        "born": int(stat[19]),
        "mib": int(stat[21]) * PAGE_KIB // 1024 + CONTEXT_MIB,
        "names": visible(entries),
        "ours": not mark or mark in entries,
    }


def processes(mark: str) -> list[Row]:
    """All processes of this machine that were given a GPU and do not just wait for another."""
    all_of_them = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            process = inspect(pid, mark.encode())
        except OSError:
            continue  # gone since, or another user's
        all_of_them[process["pid"]] = process
    for process in all_of_them.values():
        process["ours"] = descends(process, all_of_them)
    found = [one for one in all_of_them.values() if one["ours"] and one["names"]]
    parents = {process["parent"] for process in found}
    return [one for one in found if one["comm"] not in SHELLS or one["pid"] not in parents]


def descends(process: Row, all_of_them: dict[int, Row]) -> bool:
    """Whether it or one it stems from is marked: a job's own environment may be a clean one."""
    seen = set()
    while not process["ours"] and process["pid"] not in seen:
        seen.add(process["pid"])
        process = all_of_them.get(process["parent"], process)
    return bool(process["ours"])


def load_last_look(path: str) -> Row:
    try:
        with open(path) as handle:
            last: Row = json.load(handle)
    except (OSError, ValueError):
        return {"at": 0, "seen": {}}
    return last


def save_look(path: str, look: Row) -> None:
    fresh = f"{path}.{os.getpid()}"
    try:
        with open(fresh, "w") as handle:
            json.dump(look, handle)
        os.replace(fresh, path)
    except OSError:
        pass  # another account's directory: the next look is averaged over the whole life


def measure(running: list[Row], path: str) -> None:
    """Set each process' `busy`: CPU time per time since the last look, or since its birth."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    last = load_last_look(path)
    interval = now - last["at"]
    seen = {}
    for process in running:
        key = f"{process['pid']}.{process['born']}"
        before = last["seen"].get(key)
        if before and interval < MIN_INTERVAL_S:
            process["busy"] = before["busy"]
        elif before:
            process["busy"] = (process["ticks"] - before["ticks"]) / TICKS / interval
        else:
            age = max(now - process["born"] / TICKS, 0.1)
            process["busy"] = process["ticks"] / TICKS / age
        seen[key] = {"ticks": process["ticks"], "busy": process["busy"]}
    if interval >= MIN_INTERVAL_S or interval < 0:
        save_look(path, {"at": now, "seen": seen})


def look(base: str) -> tuple[list[Row], list[Row]]:
    """The GPUs, and the processes on them."""
    with open(base + ".json", encoding="utf-8") as handle:
        settings = json.load(handle)
    gpus = settings["gpus"]
    running = processes(settings.get("mark", ""))
    measure(running, base + ".last")
    apps = []
    for gpu in gpus:
        mine = [one for one in running if {gpu["uuid"], str(gpu["index"])} & set(one["names"])]
        gpu["count"] = len(gpus)
        gpu["busy"] = min(100, round(100 * sum(one["busy"] for one in mine)))
        gpu["used_mib"] = min(gpu["memory_mib"], RESERVED_MIB + sum(one["mib"] for one in mine))
        apps += [
            {"gpu": gpu, "pid": one["pid"], "name": one["comm"], "mib": one["mib"]} for one in mine
        ]
    return gpus, apps


def print_query(names: list[str], known: Fields, rows: list[Row], style: list[str]) -> int:
    for name in names:
        if name not in known:
            print(f'Field "{name}" is not a valid field to query.\n')
            return 2
    if "noheader" not in style:
        units = {name: known[name][0] for name in names}
        print(", ".join(f"{name} [{units[name]}]" if units[name] else name for name in names))
    for row in rows:
        cells = []
        for name in names:
            unit, value = known[name]
            suffix = " " + unit if unit and "nounits" not in style else ""
            cells.append(f"{value(row)}{suffix}")
        print(", ".join(cells))
    return 0


def print_list(gpus: list[Row]) -> int:
    for gpu in gpus:
        print(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})")
    return 0


def print_topology(gpus: list[Row]) -> int:
    """Every pair is joined by twelve NVLinks, as in a machine of four A100 on one board."""
    heads = [f"GPU{gpu['index']}" for gpu in gpus]
    cpus = f"0-{(os.cpu_count() or 1) - 1}"
    print("\t\x1b[4m" + "\t".join([*heads, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID\x1b[0m"]))
    for row in heads:
        cells = [" X " if row == column else "NV12" for column in heads]
        print("\t".join([row, *cells, cpus, "0", "", "N/A"]))
    print("\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks")
    return 0


def print_table(gpus: list[Row], apps: list[Row]) -> int:
    print(f"NVIDIA-SMI {DRIVER} (simulated GPUs; use follows from the processes that run)")
    print(f"GPU  {'Name':36} {'Bus-Id':16} {'Memory':>20} {'Util':>5} {'Temp':>5}")
    for gpu in gpus:
        memory = f"{gpu['used_mib']} / {gpu['memory_mib']} MiB"
        which = f"{gpu['index']:<4} {gpu['name']:36} {gpu['pci_bus_id']:16}"
        print(f"{which} {memory:>20} {gpu['busy']:>4}% {temperature(gpu):>4}C")
    print("\nProcesses:" if apps else "\nNo running processes found")
    for app in apps:
        index, pid, name, mib = app["gpu"]["index"], app["pid"], app["name"], app["mib"]
        print(f"{index:<4} {pid:>8}  {name:30} {mib:>8} MiB")
    return 0


def parse(arguments: Sequence[str]) -> dict[str, str]:
    """`--a=b`, `--a b` and `-i b` -> {"a": "b"}; anything unknown is a ValueError."""
    options: dict[str, str] = {}
    todo = list(arguments)
    while todo:
        name, given, value = todo.pop(0).partition("=")
        name = {"-i": "--id", "-L": "--list-gpus"}.get(name, name)
        if name in ("--query-gpu", "--query-compute-apps", "--format", "--id"):
            options[name] = value if given or not todo else todo.pop(0)
        elif name == "--list-gpus" and not given:
            options[name] = ""
        elif name == "topo" and todo[:1] in (["-m"], ["--matrix"]):
            options[name] = todo.pop(0)
        else:
            raise ValueError(name)
    return options


def main(arguments: Sequence[str], base: str) -> int:
    try:
        options = parse(arguments)
    except ValueError as error:
        print(f"Invalid combination of input arguments: this stand-in does not know {error}.")
        return 1
    queries = [name for name in ("--query-gpu", "--query-compute-apps") if name in options]
    style = options.get("--format", "").replace(" ", "").split(",")
    if queries and (len(queries) > 1 or "csv" not in style):
        print('"--format=" is missing; it should begin with csv. One query at a time.')
        return 1
    gpus, apps = look(base)
    if "--id" in options:
        wanted = set(options["--id"].split(","))
        gpus = [gpu for gpu in gpus if wanted & {gpu["uuid"], str(gpu["index"]), gpu["pci_bus_id"]}]
        apps = [app for app in apps if app["gpu"] in gpus]
    if not gpus:
        print("No devices were found")
        return 6
    if queries:
        names = [name.strip() for name in options[queries[0]].split(",")]
        if queries[0] == "--query-gpu":
            return print_query(names, GPU_FIELDS, gpus, style)
        return print_query(names, APP_FIELDS, apps, style)
    if "--list-gpus" in options:
        return print_list(gpus)
    return print_topology(gpus) if "topo" in options else print_table(gpus, apps)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.path.abspath(__file__)))
