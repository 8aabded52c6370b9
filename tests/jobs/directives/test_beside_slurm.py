"""The real `sbatch` cuts directive lines into the same words. It needs no controller for that."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jobs.directives.lines import directives

SBATCH = shutil.which("sbatch")
CONF = "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\nAuthType=auth/none\n"
WORD = re.compile(r'^sbatch: debug2: Found in script, argument "(.*)"$')
SCRIPTS = [
    "#SBATCH -J \"a b\" -N2 # trailing\n#SBATCH --comment='x y'   --mem 16G",
    "# comment\n   #SBATCH -n 4\n#SBATCH\t--time=1:00:00#x\n\n#SBATCH -c\\ 3\n  \n#SBATCH -N1",
    "#SBATCH -c 2\necho hi\n#SBATCH -c 3",
    "##SBATCH -c 9\n#sbatch -c 8\n# SBATCH -c 7\n#SBATCH -J 'x # y'",
    '#SBATCH -Jab"c d"e\\"f -N 2',
    '#SBATCH -J "a\\"b" -c 2\n#SBATCH -J a\\#b',
    "#SBATCH --comment='a\"b' -c1",
    "#SBATCH -J 'a\\'b' --comment=\"x\\ y\"",
    "#SBATCH -J a\\'b -c1\\",
    "#SBATCH -HJ x --array=1-5:2%3,7",
]

pytestmark = pytest.mark.skipif(SBATCH is None, reason="slurm-wlm is not installed")


def slurm_words(script: Path, conf: Path) -> list[str]:
    """Read until the options are complete; then it would look for a controller."""
    assert SBATCH is not None
    words = []
    with subprocess.Popen(
        [SBATCH, "-vvv", str(script)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "SLURM_CONF": str(conf)},
    ) as sbatch:
        assert sbatch.stderr is not None
        try:
            for line in sbatch.stderr:
                if found := WORD.match(line.rstrip("\n")):
                    words.append(found.group(1))
                if "end of defined options" in line:
                    break
        finally:
            sbatch.kill()
    return words


@pytest.mark.parametrize("lines", SCRIPTS)
def test_the_same_words(lines: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/bash\n{lines}\n")
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF)
    ours, errors, _ = directives(script.read_text())
    assert not errors
    assert [word for line in ours for word in line.words] == slurm_words(script, conf)
