"""The shepherd: what runs on a node. One file, sent there once per version.

The source is split into modules for people; `PROGRAM` joins them into one standard-library
file. Everything here but this module runs on the node, under Python 3.6 or later.

`PROGRAM`: the file's bytes. `VERSION`: the hash of them. `FILENAME`: its name in the spool
directory. It is called as `python3 -I -S SPOOL/FILENAME VERB SPOOL`; `main.py` tells how.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_SOURCE = Path(__file__).parent
_PLACE = 'MODULES: "dict[str, str]" = {}\n'


def _build() -> bytes:
    modules = []
    for path in sorted(_SOURCE.glob("*.py")):
        if path.stem in ("__init__", "loader"):
            continue
        text = path.read_text(encoding="utf-8")
        if "'''" in text:
            raise ValueError(f"{path.name}: ''' cannot be carried; write it otherwise")
        modules.append(f"    {path.stem!r}: r'''{text}''',\n")
    loader = (_SOURCE / "loader.py").read_text(encoding="utf-8")
    if loader.count(_PLACE) != 1:
        raise ValueError("loader.py: the line that takes the modules is missing")
    return loader.replace(_PLACE, "MODULES = {\n" + "".join(modules) + "}\n").encode()


PROGRAM: bytes = _build()
VERSION: str = hashlib.sha256(PROGRAM).hexdigest()[:16]
FILENAME: str = f"shepherd-{VERSION}.py"
