"""Each directive, in each way of writing it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.bands import Band
from jobs.directives import parse
from jobs.spec import Array, Dependency, DependencyKind, WarningSignal

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
AFTER_OK, AFTER_ANY = DependencyKind.AFTER_OK, DependencyKind.AFTER_ANY


def script(*lines: str) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "python train.py", ""])


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("-J train", {"name": "train"}),
        ("-Jtrain", {"name": "train"}),
        ("--job-name=train", {"name": "train"}),
        ("--job-name train", {"name": "train"}),
        ('-J "two words" # and why', {"name": "two words"}),
        ("-J 'a # b'", {"name": "a # b"}),
        (r"-J a\#b", {"name": "a#b"}),
        (r"-J 'a\'b'", {"name": "a'b"}),
        ("-J обучение", {"name": "обучение"}),
        ("-p gpu -A vision", {"partition": "gpu", "project": "vision"}),
        ("-t 90", {"walltime_s": 5400}),
        ("-t 1:30", {"walltime_s": 90}),
        ("--time=1:02:03", {"walltime_s": 3723}),
        ("--time 2-3", {"walltime_s": 2 * 86_400 + 3 * 3600}),
        ("-t2-3:04", {"walltime_s": 2 * 86_400 + 3 * 3600 + 240}),
        ("-t 2-03:04:05", {"walltime_s": 2 * 86_400 + 3 * 3600 + 245}),
        ("-N2", {"nodes": 2}),
        ("-N 2", {"nodes": 2}),
        ("--nodes=2-2", {"nodes": 2}),
        ("-N 2 -n 8", {"nodes": 2, "tasks_per_node": 4}),
        ("-n 8 --ntasks-per-node=4", {"nodes": 2, "tasks_per_node": 4}),
        ("-n 4", {"tasks_per_node": 4}),
        ("--ntasks-per-node 4 -c8", {"tasks_per_node": 4, "cpus_per_task": 8}),
        ("--mem=16G", {"memory_mib": 16_384}),
        ("--mem 500", {"memory_mib": 500}),
        ("--mem=1T", {"memory_mib": 1_048_576}),
        ("--mem=1025K", {"memory_mib": 2}),
        ("--mem=16GB", {"memory_mib": 16_384}),
        ("--mem-per-cpu=2G -c 4 --ntasks-per-node=2",
         {"memory_mib": 16_384, "cpus_per_task": 4, "tasks_per_node": 2}),
        ("--mem-per-gpu=2G --gres=gpu:4", {"memory_mib": 8192, "gpus_per_node": 4}),
        ("--gres=gpu", {"gpus_per_node": 1}),
        ("--gres=gpu:2", {"gpus_per_node": 2}),
        ("--gres gpu:a100:2", {"gpus_per_node": 2, "gpu_model": "a100"}),
        ("--gpus-per-node=h100:4", {"gpus_per_node": 4, "gpu_model": "h100"}),
        ("-G 4 -N 2", {"gpus_per_node": 2, "nodes": 2}),
        ("--gpus=3090:2", {"gpus_per_node": 2, "gpu_model": "3090"}),
        ("--gpus-per-task=1 -n 4 -N 2", {"gpus_per_node": 2, "nodes": 2, "tasks_per_node": 2}),
        ("--gres=gpu:2 --gpus=4 -N2", {"gpus_per_node": 2, "nodes": 2}),
        ("-C a100&nvlink", {"features": ("a100", "nvlink")}),
        ("-w n[1-3]", {"nodes": 3, "only_nodes": ("n1", "n2", "n3")}),
        ("-w n1,n2 -N1", {"nodes": 1, "only_nodes": ("n1", "n2")}),
        ("-x gpu[08-10,12],fat", {"not_nodes": ("gpu08", "gpu09", "gpu10", "gpu12", "fat")}),
        ("--exclusive", {"exclusive": True}),
        ("-a 0-15%4", {"array": Array(tuple(range(16)), 4)}),
        ("--array=7,1-3,2,10-20:5", {"array": Array((1, 2, 3, 7, 10, 15, 20))}),
        ("-d afterok:17:18,afterany:19",
         {"dependencies": (Dependency(AFTER_OK, 17), Dependency(AFTER_OK, 18),
                           Dependency(AFTER_ANY, 19))}),
        ("--dependency=singleton", {"dependencies": (Dependency(DependencyKind.SINGLETON),)}),
        ("-o %x-%j.out -e /logs/%A_%a", {"stdout": "%x-%j.out", "stderr": "/logs/%A_%a"}),
        ("-D /data/run", {"workdir": "/data/run"}),
        ("--chdir=~/run", {"workdir": "~/run"}),
        ("--signal=USR1@120", {"warning": WarningSignal(10, 120)}),
        ("--signal=B:SIGTERM", {"warning": WarningSignal(15, 60)}),
        ("--signal=12@5", {"warning": WarningSignal(12, 5)}),
        ("-H", {"held": True}),
        ("--hold -J x", {"held": True, "name": "x"}),
        ("-HJ x", {"held": True, "name": "x"}),
        ("--export=ALL,LR=0.1,NAME=x", {"environment": (("LR", "0.1"), ("NAME", "x"))}),
        ("""--export='A="b,c",D=e'""", {"environment": (("A", "b,c"), ("D", "e"))}),
        ('--export="A=b c"', {"environment": (("A", "b c"),)}),
        ("--export=NONE", {"environment": ()}),
        ("-c 2 -c 3", {"cpus_per_task": 3}),
        ("--gres=shard", {"shards": 1}),
        ("--gres=shard:2", {"shards": 2}),
        ("--gres=gpu:a100:1 --gres=shard:3", {"gpu_model": "a100", "shards": 3}),
        ("--gres=shard:3 --gres=gpu:1", {"gpus_per_node": 1}),
        ("--gres=shard:0", {"shards": 0}),
        ("--gres=gpu:1g.10gb:2", {"gpus_per_node": 2, "gpu_model": "1g.10gb"}),
        ("--gres=gpu:1g.10gb+me:1", {"gpus_per_node": 1, "gpu_model": "1g.10gb+me"}),
        ("-N4 --switches=1", {"nodes": 4, "max_switches": 1}),
        ("-q production", {"band": Band.PRODUCTION}),
        ("--qos=Best-Effort", {"band": Band.BEST_EFFORT}),
        ("--nice", {"nice": 100}),
        ("--nice=10", {"nice": 10}),
        ("--nice=-1000 -J x", {"nice": -1000, "name": "x"}),
        ("--requeue", {"requeue": True}),
        ("--requeue --no-requeue", {"requeue": False}),
        ("-b 2026-11-21T13:00:00Z --deadline=2026-11-22",
         {"begin_at": NOW + timedelta(hours=1), "deadline_at": NOW + timedelta(hours=12)}),
    ],
)  # fmt: skip
def test_what_a_line_sets(line: str, settings: dict[str, Any]) -> None:
    found = parse(script(line), now=NOW)
    assert found.errors == ()
    assert found.settings == settings


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", NOW),
        ("now+60", NOW + timedelta(minutes=1)),
        ("now+1hour", NOW + timedelta(hours=1)),
        ("now+2days", NOW + timedelta(days=2)),
        ("now+1week", NOW + timedelta(weeks=1)),
        ("16:00", NOW.replace(hour=16)),
        ("11:00", NOW.replace(day=22, hour=11)),
        ("4:30pm", NOW.replace(hour=16, minute=30)),
        ("12:00am", NOW.replace(day=22, hour=0)),
        ("noon", NOW.replace(day=22)),
        ("midnight", NOW.replace(day=22, hour=0)),
        ("tomorrow", NOW.replace(day=22, hour=0)),
        ("2027-01-20", datetime(2027, 1, 20, tzinfo=UTC)),
        ("2027-01-20T12:34", datetime(2027, 1, 20, 12, 34, tzinfo=UTC)),
        ("2027-01-20T12:34:56+02:00", datetime(2027, 1, 20, 10, 34, 56, tzinfo=UTC)),
    ],
)
def test_times(text: str, moment: datetime) -> None:
    assert parse(script(f"--begin={text}"), now=NOW).settings == {"begin_at": moment}
    assert parse(script(f"-b {text}"), now=NOW).settings == {"begin_at": moment}
    assert parse(script(f"--deadline {text}"), now=NOW).settings == {"deadline_at": moment}


@pytest.mark.parametrize(
    ("line", "directive", "says"),
    [
        ("--gpu-per-node=2", "--gpu-per-node", "did you mean --gpus-per-node?"),
        ("--ntask=2", "--ntask", "did you mean --ntasks or --ntasks-per-node?"),
        ("--frobnicate 3", "--frobnicate", "is not known here; take it out"),
        ("-Z", "-Z", "not known"),
        ("train", "#SBATCH", "'train' is no option"),
        ("--", "#SBATCH", "no option"),
        ('-J "open', "#SBATCH", "not closed"),
        ("-c", "-c", "needs a value"),
        ("--hold=yes", "--hold", "takes no value"),
        ("--exclusive=user", "--exclusive", "takes no value here"),
        ("-J ''", "-J", "must not be empty"),
        ("-p a,b", "-p", "is not a name"),
        ("-t 2h", "-t", "1:30:00"),
        ("-t 0", "-t", "needs a time limit"),
        ("-t UNLIMITED", "-t", "needs a time limit"),
        ("-t 1000-0", "-t", "366 days"),
        ("-N 2-4", "-N", "exact number"),
        ("-N 0", "-N", "1 or more"),
        ("-N two", "-N", "whole number"),
        ("-n 5 -N 2", "-n", "ask for 4 or 6"),
        ("-n 1 -N 2", "-n", "ask for 2,"),
        ("-n 5 -N 2 --ntasks-per-node=2", "-n", "are 4; leave one of the three out"),
        ("-n 5 --ntasks-per-node=2", "-n", "ask for 4 or 6"),
        ("--gpus=5 -N 2", "--gpus", "ask for 4 or 6"),
        ("--gres=gpu:2 --gpus-per-node=4", "--gres", "leave one of them out"),
        ("--mem=lots", "--mem", "16G"),
        ("--mem=1.5G", "--mem", "16G"),
        ("--mem=1G --mem-per-cpu=1G", "--mem-per-cpu", "--mem is given too"),
        ("--mem-per-gpu=1G", "--mem-per-gpu", "use --mem"),
        ("--gres=tmp:5", "--gres", "only GPUs"),
        ("--gres=gpu:2,shard:5", "--gres", "or parts of one: shard:2"),
        ("--gres=shard:a100:2", "--gres", "--constraint=a100"),
        ("--gres=shard:two", "--gres", "whole number"),
        ("--gres=shard:1001", "--gres", "to 1,000, not 1001"),
        ("--gres=shard:1 --gpus=1", "--gres", "parts of a GPU and for whole GPUs; ask for one"),
        ("--gres=shard:1 --mem-per-gpu=1G", "--mem-per-gpu", "use --mem"),
        ("--switches=0", "--switches", "1 or more"),
        ("--switches=1@soon", "--switches", "1@10:00"),
        ("--switches=5000", "--switches", "4,096"),
        ("-q high", "-q", "monitoring, production, batch or best-effort"),
        ("--nice=1001", "--nice", "from -1,000 to 1,000, not 1001"),
        ("--nice=-", "--nice", "whole number"),
        ("--nice=1.5", "--nice", "whole number"),
        ("--requeue=yes", "--requeue", "takes no value"),
        ("--gres=gpu:2,tmp:5", "--gres", "only GPUs"),
        ("--gres=gpu:-1", "--gres", "write gpu:2 or gpu:a100:2,"),
        ("--gpus=-1", "--gpus", "write 2 or a100:2,"),
        ("--gpus=a100:1,h100:1", "--gpus", "of one model"),
        ("-C a100|h100", "-C", "either of them"),
        ("-C 'a*2'", "-C", "'&'"),
        ("-w ./hosts", "-w", "file"),
        ("-w n[3-1]", "-w", "n[1-3,7]"),
        ("-w n[1-999999]", "-w", "at most"),
        ("-w n1 -N2", "-N", "allows only 1"),
        ("-a 5-1", "-a", "lower index first"),
        ("-a 1-3%0", "-a", "1 or more"),
        ("-a 0-999999999", "-a", "at most"),
        ("-a 0-20000", "-a", "10,000 tasks"),
        ("-a x", "-a", "0-9"),
        ("-d after:17", "-d", "afterok:17"),
        ("-d afterok", "-d", "afterok:17:18"),
        ("-d afterok:1?afterok:2", "-d", "all of them"),
        ("-b soon", "-b", "now+1hour"),
        ("-b 2027-02-30", "-b", "2027-01-20"),
        ("-b now+999999999weeks", "-b", "now+1hour"),
        ("-o a%q", "-o", "'%q' is not known"),
        ("-D relative", "-D", "start with /"),
        ("--signal=NOPE", "--signal", "USR1"),
        ("--signal=B:USR1@70000", "--signal", "65,535"),
        ("--export=HOME", "--export", "HOME=VALUE"),
        ("--export=RANK=1", "--export", "set by Carrel"),
        ("-N 9999", "-N", "4,096"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(
    line: str, directive: str, says: str
) -> None:
    errors = parse(script("-J fine", line), now=NOW).errors
    assert [(error.field, error.line) for error in errors] == [(directive, 3)]
    assert says in errors[0].message


def test_all_errors_are_told_in_the_order_of_the_lines() -> None:
    found = parse(script("-t soon -N x", "--gres=gpu:2", "--nope 7 -c 0", "-n"), now=NOW)
    assert [(error.line, error.field) for error in found.errors] == [
        (2, "-t"), (2, "-N"), (4, "--nope"), (4, "-c"), (5, "-n"),
    ]  # fmt: skip
    assert found.settings == {"gpus_per_node": 2}
    assert str(found.errors[0]).startswith("line 2: -t: 'soon' is not a time; write")


@pytest.mark.parametrize(
    ("line", "directive", "says"),
    [
        ("--switches=2@10:00", "--switches", "@10:00 has no effect"),
        ("--switches=1@1-0", "--switches", "waits for room below one switch"),
        ("--mail-type=END", "--mail-type", "sends no mail"),
        ("-n 4", "-n", "run on one node"),
        ("-w n1,n2 -N1", "-w", "1 of these 2"),
        ("--gpus-per-task=1 --ntasks-per-node=2", "--gpus-per-task", "LOCAL_RANK"),
        ("--mem=0", "--mem", "--exclusive"),
        ("--signal=B:USR1@60", "--signal", "every process of the task"),
    ],
)
def test_what_a_person_should_know(line: str, directive: str, says: str) -> None:
    found = parse(script(line), now=NOW)
    assert found.errors == ()
    assert [(notice.field, notice.line) for notice in found.warnings] == [(directive, 2)]
    assert says in found.warnings[0].message


def test_directives_end_at_the_first_command() -> None:
    text = "#!/bin/bash\n# about\n\n#SBATCH -c 2\n  # more\n \n#SBATCH -N2\nset -e\n#SBATCH -c 4\n"
    found = parse(text, now=NOW)
    assert found.settings == {"cpus_per_task": 2, "nodes": 2}
    assert [(notice.line, notice.field) for notice in found.warnings] == [(9, "#SBATCH")]
    assert "first command (line 8)" in found.warnings[0].message


@pytest.mark.parametrize("line", ["# SBATCH -c 2", "  #SBATCH -c 2", "#sbatch -c 2"])
def test_what_only_looks_like_a_directive_is_pointed_out(line: str) -> None:
    found = parse(f"#!/bin/sh\n{line}\n", now=NOW)
    assert found.settings == {}
    assert [notice.line for notice in found.warnings] == [2]
    assert parse("#!/bin/sh\n##SBATCH -c 2\n", now=NOW).warnings == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("srun python x", "srun"),
        ("  OMP_NUM_THREADS=4 srun -n 4 ./a", "srun"),
        ("if true; then mpirun ./a; fi", "mpirun"),
        ("time /usr/bin/mpiexec ./a", "mpiexec"),
        ("x=$(srun hostname)", "srun"),
        ("# srun python x", None),
        ("echo srun", None),
        ("./srun.sh", None),
    ],
)
def test_launchers_of_other_worlds(line: str, name: str | None) -> None:
    found = parse(f"#!/bin/sh\ntrue\n{line}\n", now=NOW)
    assert [(notice.field, notice.line) for notice in found.warnings] == (
        [(name, 3)] if name else []
    )


def test_windows_line_ends_mean_nothing() -> None:
    text = script("-c 2", "-J x")
    assert parse(text.replace("\n", "\r\n"), now=NOW) == parse(text, now=NOW)
