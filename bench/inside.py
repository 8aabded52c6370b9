"""What is done to a Carrel from within, as a script on the portal's own machine would.

`python -m bench.inside VERB`, with the environment of that Carrel:

    add-nodes   JSON on stdin, a list of {name, port, login, host_key}: make them nodes
    submit      JSON on stdin, {script, count, array}: submit no-op jobs; prints when it began
    cancel-all  cancel every job that has not ended
"""

from __future__ import annotations

import json
import sys
import time

import django
from django.utils import timezone

django.setup()

from jobs import lifecycle  # noqa: E402
from portal.actions import cancel, nodes, setup, submit  # noqa: E402
from portal.models import Job, Node  # noqa: E402

CPUS = 64
MEMORY_MIB = 512_000
"""Given to every node in place of its share of this machine, as Slurm's config_overrides does."""


def add_nodes() -> None:
    setup.first_project(setup.first_admin())
    for given in json.load(sys.stdin):
        node = nodes.add(host="127.0.0.1", actor=None, now=timezone.now(), **given)
        if node.problem:
            sys.exit(f"{node}: {node.problem}")
    Node.objects.update(cpus=CPUS, memory_mib=MEMORY_MIB)


def submit_jobs() -> None:
    given = json.load(sys.stdin)
    owner = setup.first_admin()
    script, count = given["script"], given["count"]
    overrides = {"array": f"1-{count}"} if given["array"] else {}
    began = time.time()
    for _ in range(1 if given["array"] else count):
        asked = submit.read(owner=owner, script=script, overrides=overrides, now=timezone.now())
        submit.submit(
            owner=owner, spec=asked.spec, project=asked.project, partition=asked.partition,
            now=timezone.now(),
        )  # fmt: skip
    print(json.dumps({"began_at": began, "submitted_s": time.time() - began}))


def cancel_all() -> None:
    owner = setup.first_admin()
    for job in Job.objects.exclude(state__in=lifecycle.ENDED):
        cancel.cancel(job=job, actor=owner, now=timezone.now())


if __name__ == "__main__":
    {"add-nodes": add_nodes, "submit": submit_jobs, "cancel-all": cancel_all}[sys.argv[1]]()
