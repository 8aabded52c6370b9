"""What every engine does, on a real node."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from jobs.engines.contract import Engine, Launch, Prune, Pruned, Stop, run_key
from jobs.events import Cause, Observation, Phase, RunObserved

_jobs = count(1)


def a_launch(place: Path, script: str, **changes: object) -> Launch:
    fields: dict[str, object] = {
        "key": run_key(next(_jobs), 1, 0, "0"),
        "script": script,
        "environment": {},
        "tasks": ({},),
        "workdir": str(place),
        "walltime_s": 600,
        "checkpoint_dir": str(place / "checkpoints"),
    }
    return Launch(**{**fields, **changes})  # type: ignore[arg-type]


def look(engine: Engine, key: str) -> RunObserved:
    return engine.observe([key]).runs[0]


def until(engine: Engine, key: str, wanted: Callable[[Observation], object]) -> Observation:
    deadline = time.monotonic() + 20
    while True:
        seen = engine.observe([key])
        if wanted(seen):
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)


def ended(engine: Engine, key: str) -> RunObserved:
    return until(engine, key, lambda seen: seen.runs[0].phase == Phase.EXITED).runs[0]


def test_a_run_from_beginning_to_end(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\necho hello; pwd; exit 7\n")
    (answer,) = engine.launch([launch])
    assert answer.accepted and answer.key == launch.key
    run = ended(engine, launch.key)
    assert (run.cause, run.exit_code, run.signal) == (Cause.EXITED, 7, None)
    assert run.log_tail == f"hello\n{place}\n".encode()
    assert run.log_bytes == len(run.log_tail)
    assert run.started_at is not None and run.ended_at is not None
    assert run.started_at <= run.ended_at


def test_a_run_that_was_never_launched(engine: Engine) -> None:
    assert look(engine, "j1.a1.n0").phase == Phase.ABSENT
    engine.collect(["j1.a1.n0"])


def test_the_same_launch_again_starts_nothing(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\necho x >> started; sleep 1\n")
    engine.launch([launch])
    assert engine.launch([launch, launch])[0].accepted
    ended(engine, launch.key)
    engine.launch([launch])
    assert (place / "started").read_text() == "x\n"


def test_from_many_threads_it_starts_once(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\necho x >> started\n")
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: engine.launch([launch]), range(8)))
    assert all(answer.accepted for (answer,) in answers)
    ended(engine, launch.key)
    assert (place / "started").read_text() == "x\n"


def test_many_at_once(engine: Engine, place: Path) -> None:
    launches = [a_launch(place, f"#!/bin/sh\nexit {n}\n") for n in range(20)]
    answers = engine.launch(launches)
    assert [answer.key for answer in answers] == [launch.key for launch in launches]
    assert [ended(engine, launch.key).exit_code for launch in launches] == list(range(20))


def test_environment_and_script_arrive_as_they_are(engine: Engine, place: Path) -> None:
    values = {"A": "$(touch pwned) `id`", "B": "two\nlines 'and' \"quotes\" \\", "C": "Ünïcödé 🚀"}
    script = "#!/usr/bin/env python3\nimport os\nfor n in 'ABC': print(ascii(os.environ[n]))\n"
    launch = a_launch(place, script, environment=values, tasks=({"RANK": "0"},))
    engine.launch([launch])
    run = ended(engine, launch.key)
    assert run.log_tail is not None
    assert run.log_tail.decode().splitlines() == [ascii(value) for value in values.values()]
    assert not (place / "pwned").exists()


def test_a_task_each_with_its_own_variables(engine: Engine, place: Path) -> None:
    tasks = tuple({"RANK": str(rank)} for rank in range(3))
    launch = a_launch(place, "#!/bin/sh\necho rank $RANK > out.$RANK\n", tasks=tasks)
    engine.launch([launch])
    assert ended(engine, launch.key).exit_code == 0
    assert [(place / f"out.{n}").read_text() for n in range(3)] == [f"rank {n}\n" for n in range(3)]


def test_a_signal_of_its_own(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\nkill -SEGV $$\n")
    engine.launch([launch])
    run = ended(engine, launch.key)
    assert (run.cause, run.exit_code, run.signal) == (Cause.EXITED, None, 11)


def test_no_such_working_directory(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\necho hello\n", workdir=str(place / "nowhere"))
    engine.launch([launch])
    run = ended(engine, launch.key)
    assert run.cause == Cause.LAUNCH_FAILED
    assert "nowhere" in run.message


def test_stop(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\nsleep 600 & sleep 600\n")
    engine.launch([launch])
    assert look(engine, launch.key).phase == Phase.RUNNING
    engine.stop([Stop(launch.key)])
    engine.stop([Stop(launch.key)])
    run = ended(engine, launch.key)
    assert run.cause == Cause.STOPPED
    engine.stop([Stop(launch.key)])


def test_stop_something_that_takes_no_notice(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\ntrap '' TERM\ntouch ready\nwhile :; do sleep 1; done\n")
    engine.launch([launch])
    until(engine, launch.key, lambda _: (place / "ready").exists())
    engine.stop([Stop(launch.key, grace_s=1)])
    run = ended(engine, launch.key)
    assert (run.cause, run.signal) == (Cause.STOPPED, 9)


def test_stop_before_launch(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\ntouch ran\n")
    engine.stop([Stop(launch.key)])
    (answer,) = engine.launch([launch])
    assert not answer.accepted
    assert ended(engine, launch.key).cause == Cause.STOPPED
    assert not (place / "ran").exists()


def test_a_late_launch_begins_nothing(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\ntouch ran\n")
    (answer,) = engine.launch([replace(launch, late=True)])
    assert not (answer.accepted or answer.refused)
    # Nor does one that was on its way all the time.
    (answer,) = engine.launch([launch])
    assert not (answer.accepted or answer.refused)
    assert ended(engine, launch.key).cause == Cause.NOT_BEGUN
    assert not (place / "ran").exists()


def test_a_late_launch_ends_nothing(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\nsleep 600\n")
    engine.launch([launch])
    (answer,) = engine.launch([replace(launch, late=True)])
    assert answer.accepted
    assert look(engine, launch.key).phase == Phase.RUNNING


def test_walltime(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\nsleep 600\n", walltime_s=1, grace_s=1)
    engine.launch([launch])
    assert ended(engine, launch.key).cause == Cause.WALLTIME


def test_parts_of_a_log(engine: Engine, place: Path) -> None:
    script = "#!/usr/bin/env python3\nimport os\nos.write(1, bytes(range(256)) * 1000)\n"
    launch = a_launch(place, script)
    assert engine.read_log(launch.key, offset=0, length=100).size == 0
    engine.launch([launch])
    run = ended(engine, launch.key)
    assert run.log_bytes == 256_000
    whole = bytes(range(256)) * 1000
    part = engine.read_log(launch.key, offset=1000, length=50)
    assert (part.offset, part.data, part.size) == (1000, whole[1000:1050], 256_000)
    end = engine.read_log(launch.key, offset=-10, length=100)
    assert (end.offset, end.data) == (255_990, whole[-10:])
    assert engine.read_log(launch.key, offset=900_000, length=10).data == b""


def test_checkpoints(engine: Engine, place: Path) -> None:
    script = "#!/bin/sh\ncd $CARREL_CHECKPOINT_DIR && printf 12345 > step-300.pt && sleep 600\n"
    directory = str(place / "checkpoints")
    launch = a_launch(place, script, environment={"CARREL_CHECKPOINT_DIR": directory})
    engine.launch([launch])
    seen = until(engine, launch.key, lambda seen: any(c.complete for c in seen.checkpoints))
    (found,) = seen.checkpoints
    assert (found.key, found.name, found.step, found.size_bytes) == (
        launch.key,
        "step-300.pt",
        300,
        5,
    )
    assert found.path == f"{directory}/step-300.pt"
    engine.stop([Stop(launch.key)])
    ended(engine, launch.key)
    asked = [Prune(launch.key, "step-300.pt", 7), Prune(launch.key, "step-300.pt", 5)]
    changed, gone = engine.prune(asked)
    assert changed == Pruned(launch.key, "step-300.pt", False, "it has changed")
    assert gone == Pruned(launch.key, "step-300.pt", True)
    assert not Path(found.path).exists()


def test_the_machine_itself(engine: Engine) -> None:
    seen = engine.observe([], system=True)
    assert seen.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert abs(seen.at - time.time()) < 60
    assert seen.system is not None and seen.system.memory_total_mib > 0
    assert seen.system.disk_free_mib <= seen.system.disk_total_mib
    assert seen.gpus is None
    assert engine.observe([]).system is None


def test_watch(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\nexit 0\n")
    changes = engine.watch()
    assert next(changes) == ""
    engine.launch([launch])
    assert any(next(changes) == launch.key for _ in range(20))
    ended(engine, launch.key)
    changes.close()  # type: ignore[attr-defined]


def test_collect(engine: Engine, place: Path) -> None:
    over = a_launch(place, "#!/bin/sh\nexit 0\n")
    going = a_launch(place, "#!/bin/sh\nsleep 600\n")
    engine.launch([over, going])
    ended(engine, over.key)
    engine.collect([over.key, going.key])
    assert look(engine, over.key).phase == Phase.ABSENT
    assert look(engine, going.key).phase == Phase.RUNNING
    engine.stop([Stop(going.key)])
    ended(engine, going.key)


def test_runs_outlive_the_connection(engine: Engine, place: Path) -> None:
    launch = a_launch(place, "#!/bin/sh\nsleep 1; echo done; exit 3\n")
    engine.launch([launch])
    engine.close()
    run = ended(engine, launch.key)
    assert (run.exit_code, run.log_tail) == (3, b"done\n")


@pytest.mark.parametrize("key", ["../x", "", "a/b", "x\n"])
def test_keys_that_are_none(engine: Engine, place: Path, key: str) -> None:
    (answer,) = engine.launch([a_launch(place, "#!/bin/sh\n", key=key)])
    assert not answer.accepted and answer.message
