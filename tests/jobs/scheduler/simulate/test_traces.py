"""Readers: a few lines of each format, and what is said of lines with something wrong in them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from jobs.scheduler.simulate.job import asked
from jobs.scheduler.simulate.openb import Machine, Pod, read_machines, read_pods
from jobs.scheduler.simulate.tables import TableError
from jobs.scheduler.simulate.traces import (
    Cluster,
    Format,
    Recorded,
    Window,
    find_cluster,
    format_of,
    keep_possible,
    moment,
    read_cluster,
    read_jobs,
    read_window,
)

VENUS = """job_id,user,vc,gpu_num,cpu_num,state,submit_s,duration_s
11,ann,vcA,1,4,COMPLETED,100,60
12,bob,vcB,16,64,FAILED,40,5
13,ann,vcA,8,32,COMPLETED,100,0
"""
PHILLY = """row_id,submit_time,duration_s,gpu_num,vc
0,2017-09-30 23:59:59,10,1,v1
1,2017-10-01 00:00:00,20,2,v1
2,2017-10-01 00:01:05,30,4,v2
"""
RICC = """job,submit_s,run_s,procs_alloc,procs_req,req_time_s,status,user,group,queue
1,0,222,80,96,14400,1,7,3,1
2,5,-1,1,1,-1,1,8,3,1
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,12000,16384,1,460,
p1,8000,1024,2,1000,V100M16|V100M32
p2,500,64,0,0,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def file(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_venus_by_time_and_equal_times_in_the_order_of_the_file(folder: Path, name: str) -> None:
    assert read_jobs(file(folder, VENUS, name)) == [
        Recorded(0, 5, 16, "vcB", "vcB", "bob", "64 CPUs"),
        Recorded(60, 60, 1, "vcA", "vcA", "ann", "4 CPUs"),
        Recorded(60, 0, 8, "vcA", "vcA", "ann", "32 CPUs"),
    ]


def test_venus_without_users_and_vcs(folder: Path) -> None:
    path = file(folder, "job_id,submit_s,duration_s,gpu_num,duration_clamped\n1,7,40,2,0\n")
    assert read_jobs(path) == [Recorded(0, 40, 2)]


def test_philly_from_a_date_on(folder: Path) -> None:
    october = Window(moment("2017-10-01", Format.PHILLY), None)
    assert read_jobs(file(folder, PHILLY), None, october) == [
        Recorded(0, 20, 2, "v1", "v1"),
        Recorded(65, 30, 4, "v2", "v2"),
    ]


def test_ricc_has_groups_and_requested_times(folder: Path) -> None:
    assert read_jobs(file(folder, RICC)) == [
        Recorded(0, 222, 80, "", "3", "7", "1", 14400),
        Recorded(5, -1, 1, "", "3", "8", "1", None),
    ]


def test_a_window_begins_where_it_says_and_ends_before_its_end(folder: Path) -> None:
    path = file(folder, VENUS)
    assert [job.submit_s for job in read_jobs(path, None, Window(30, 100))] == [10]
    assert [job.submit_s for job in read_jobs(path, None, Window(100, None))] == [0, 0]


def test_a_window_as_it_is_asked_for() -> None:
    assert read_window(None, "-5", Format.VENUS) == Window(None, -5)
    assert read_window("1970-01-02", None, Format.PHILLY) == Window(86_400, None)


@pytest.mark.parametrize(
    ("form", "text"),
    [(Format.VENUS, text) for text in ("nan", "inf", "-inf", "1e300", "-1e12", "", "June")]
    + [(Format.PHILLY, text) for text in ("5", "", "0001-01-01", "9999-12-31", "2017-13-01")],
)
def test_no_time_to_begin_at(form: Format, text: str) -> None:
    with pytest.raises(TableError, match=r"^--from: must be a "):
        read_window(text, None, form)
    with pytest.raises(TableError, match=r"^--until: must be a "):
        read_window(None, text, form)


def test_the_header_shows_the_format(folder: Path) -> None:
    for text, form in ((VENUS, "venus"), (PHILLY, "philly"), (RICC, "ricc"), (PODS, "openb")):
        assert format_of(file(folder, text)) == form


def test_openb(folder: Path) -> None:
    assert read_pods(file(folder, PODS)) == (
        Pod("p0", 12000, 16384, 1, 460),
        Pod("p1", 8000, 1024, 2, 1000, frozenset({"V100M16", "V100M32"})),
        Pod("p2", 500, 64, 0, 0),
    )
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,32000,1024,0,\n"
    assert read_machines(file(folder, nodes)) == (
        Machine("n0", 64000, 262144, 2, "P100"),
        Machine("n1", 32000, 1024, 0, ""),
    )


@pytest.mark.parametrize("column", ["nodes", "node num"])
def test_clusters(folder: Path, column: str) -> None:
    found = read_cluster(file(folder, f"vc,{column}\nv1,3\nv2,1\n"))
    assert found == Cluster({"v1": 3, "v2": 1})
    assert found.total == 4
    assert find_cluster("t.csv", folder) == found
    assert find_cluster("86") == Cluster({"": 86})


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "nan", "1e9", "9" * 5000])
def test_so_many_nodes_no_cluster_has(text: str) -> None:
    with pytest.raises(TableError, match="a cluster has from 1 to 100,000 nodes, not "):
        find_cluster(text)


def test_who_cannot_run_at_all_is_left_out_and_counted() -> None:
    jobs = [
        Recorded(0, 1, 8, "v1"),
        Recorded(0, 1, 9, "v1"),
        Recorded(0, 1, 1, "v3"),
        Recorded(0, 1, 0, "v1"),
        Recorded(0, 1, 10, "v1"),
    ]
    kept = keep_possible(jobs, Cluster({"v1": 1, "v2": 2}), 8)
    assert kept.jobs == (jobs[0],)
    assert kept.left_out == (
        "2 jobs ask for more GPUs than v1 has",
        "1 jobs are of v3, which has no nodes",
        "1 jobs ask for no GPU",
    )
    assert len(keep_possible(jobs, Cluster({"": 2}), 8).jobs) == 4


def test_the_largest_job_that_may_be_is_kept() -> None:
    jobs = [Recorded(0, 1, gpus) for gpus in (8 * 4096, 8 * 4096 + 1)]
    kept = keep_possible(jobs, Cluster({"": 5000}), 8)
    assert kept.jobs == (jobs[0],) and asked(kept.jobs[0].gpus).nodes == 4096
    assert kept.left_out == ("1 jobs ask for more GPUs than 4,096 nodes have, the most of one job",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (VENUS.replace(",60\n", ",soon\n"),
         "t.csv, line 2, column duration_s: must be a number, not 'soon'"),
        (VENUS.replace(",40,5", ",-4,5"),
         "t.csv, line 3, column submit_s: must be a number from 0 to 10,000,000,000, "
         "not '-4'"),
        (VENUS.replace(",40,5", ",1e12,5"), "t.csv, line 3, column submit_s: must be a number "),
        (VENUS.replace(",60\n", ",1e300\n"), "t.csv, line 2, column duration_s: must be a number "),
        (VENUS.replace(",60\n", ",nan\n"), "t.csv, line 2, column duration_s: must be a number "),
        (VENUS.replace("vcA,1,", f"vcA,{'9' * 5000},"),
         "t.csv, line 2, column gpu_num: must be a number from 0 to 10,000,000,000, "
         "not '999999999999...9999999999999'"),
        (VENUS.replace("vcA,8,", "vcA,1.5,"),
         "t.csv, line 4, column gpu_num: must be a whole number, not '1.5'"),
        (VENUS.replace("ann,vcA,1,", "ann,1,"),
         "t.csv, line 2: there are 7 values for 8 columns"),
        (PHILLY.replace("2017-10-01 00:01:05", "yesterday"),
         "t.csv, line 4, column submit_time: must be a date like 2017-10-03 14:05:59, "
         "since 1970, not 'yesterday'"),
        (PHILLY.replace("2017-10-01 00:01:05", "0001-01-01"),
         "t.csv, line 4, column submit_time: must be a date like "),
        (PHILLY.replace(",v2", ","), "t.csv, line 4, column vc: is empty"),
        (RICC.replace(",7,3,1", ",7,,1"), "t.csv, line 2, column group: is empty"),
        (RICC.replace("user,", "person,"), "t.csv, line 1: no column 'user'; there are job, "),
        ("a,b\n1,2\n",
         "t.csv, line 1: the columns are those of no format known here, "
         "venus, philly, ricc, openb: a, b"),
        ("", "t.csv, line 1: there is no header with the names of the columns"),
        (VENUS.splitlines()[0] + "\n", "t.csv: there are no jobs in it"),
        (VENUS.replace("state", "vc"), "t.csv, line 1: there are 2 columns 'vc'"),
        (VENUS.replace("12,bob", '12,"bob'), "t.csv, line 4: unexpected end of data"),
        (VENUS.replace("11,ann", '11,"an\nn"').replace(",5\n", ",x\n"),
         "t.csv, line 4, column duration_s: must be a number, not 'x'"),
        ("submit_s,duration_s,gpu_num\n" + 21 * "0,1e10,1\n",
         "t.csv: its jobs run for more than 6,342 years together"),
        (PODS,
         "t.csv: pods of openb have no times to simulate: they are placed, not queued. "
         "Only bench/traces.py plays them: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(folder: Path, text: str, said: str) -> None:
    with pytest.raises(TableError) as told:
        read_jobs(file(folder, text))
    assert str(told.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vc,nodes\nv1,3\nv1,4\n", "t.csv, line 3, column vc: v1 is there twice"),
        (
            "vc,nodes\nv1,0\n",
            "t.csv, line 2, column nodes: must be a number from 1 to 100,000, not '0'",
        ),
        ("vc,nodes\nv1,100000\nv2,1\n", "t.csv: there are more than 100,000 nodes in it"),
        ("vc,hosts\nv1,3\n", "t.csv, line 1: no column 'nodes'; there are vc, hosts"),
        ("vc,nodes\n", "t.csv: there are no nodes in it"),
    ],
)
def test_what_is_wrong_with_a_cluster(folder: Path, text: str, said: str) -> None:
    with pytest.raises(TableError) as told:
        read_cluster(file(folder, text))
    assert str(told.value) == said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (",460,", ",1200,", "t.csv, line 2, column gpu_milli: must be from 1 to 1000, not 1200"),
        ("2,1000", "2,500", "t.csv, line 3, column gpu_milli: must be 1000 for a pod with 2 GPUs"),
        ("2,1000", "1e9,1000",
         "t.csv, line 3, column num_gpu: must be a number from 0 to 256, not '1e9'"),
        (PODS.partition("\n")[2], "", "t.csv: there are no pods in it"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_pods(folder: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(TableError) as told:
        read_pods(file(folder, PODS.replace(old, new)))
    assert str(told.value) == said


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("n0,1,1,1e9,P100", "t.csv, line 2, column gpu: must be a number from 0 to 256, not '1e9'"),
        ("n0,1e9,1,1,P100", "t.csv, line 2, column cpu_milli: must be a number from 0 to "),
        ("n0,1,1e9,1,P100", "t.csv, line 2, column memory_mib: must be a number from 0 to "),
        ("n0,1,1,0,P100", "t.csv: there is no node with GPUs in it"),
    ],
)
def test_what_is_wrong_with_machines(folder: Path, machine: str, said: str) -> None:
    with pytest.raises(TableError) as told:
        read_machines(file(folder, f"sn,cpu_milli,memory_mib,gpu,model\n{machine}\n"))
    assert str(told.value).startswith(said)


def test_files_that_are_no_tables(folder: Path) -> None:
    with pytest.raises(TableError, match="there is no such file"):
        read_jobs(folder / "none.csv")
    with pytest.raises(TableError, match=r"cannot be read: Is a directory$"):
        read_jobs(folder)
    (folder / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TableError, match="is no text in UTF-8"):
        read_jobs(folder / "b")
    whole = gzip.compress(VENUS.encode())
    # Ten bytes of header come first; 0xff then begins a block of a kind that there is not.
    for damaged in (whole[:40], whole[:10] + b"\xff" + whole[11:], whole[:-8] + 8 * b"\0"):
        (folder / "g").write_bytes(damaged)
        with pytest.raises(TableError, match="cannot be read: "):
            read_jobs(folder / "g")
