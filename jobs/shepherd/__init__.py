"""The shepherd: what runs on a node. One file, sent there once per version.

The source is split into modules for people; `PROGRAM` joins them into one standard-library
file. Everything here but this module runs on the node, under Python 3.6 or later.

`PROGRAM`: the file's bytes. `VERSION`: the hash of its sources. `FILENAME`: its name in the
spool directory. It is called as `python3 -I -S SPOOL/FILENAME VERB SPOOL`; `main.py` tells how.
"""

from __future__ import annotations

import base64
import hashlib
import marshal
import zlib
from pathlib import Path

_SOURCE = Path(__file__).parent
_PLACE = 'PACKED = b""\n'
_MARSHAL_FORMAT = 2
"""Old enough for every Python 3, and free of references that would make it vary."""


def _build() -> tuple[bytes, str]:
    loader = (_SOURCE / "loader.py").read_text(encoding="utf-8")
    if loader.count(_PLACE) != 1:
        raise ValueError("loader.py: the line that takes the modules is missing")
    modules = {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(_SOURCE.glob("*.py"))
        if path.stem not in ("__init__", "loader")
    }
    plain = marshal.dumps(modules, _MARSHAL_FORMAT)
    packed = base64.b64encode(zlib.compress(plain, 9)).decode("ascii")
    # Of the sources, not of the packed form: that may differ between versions of zlib.
    version = hashlib.sha256(loader.encode() + plain).hexdigest()[:16]
    return loader.replace(_PLACE, f'PACKED = b"{packed}"\n').encode(), version


PROGRAM: bytes
VERSION: str
PROGRAM, VERSION = _build()
FILENAME: str = f"shepherd-{VERSION}.py"
