"""Whether a checkpoint is whole: all there that its manifest, index or format says.

What says nothing of itself passes; that it is closed and left alone is for `checkpoints` to see.
"""

import os

from . import formats, wire
from .formats import NotWhole
from .spool import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MANIFEST = "carrel-manifest.json"
MAX_FILES = 10000
MAX_INDEX = 64 << 20
"""Bytes of an index; of a longer one nothing is believed."""
HASHED = 256 << 20
"""Bytes of a checkpoint whose checksums are compared, the smallest files first; of the others
the size has to do. All of a large one would take longer than a look may."""


def problem(path: str, is_dir: bool) -> str:
    """What keeps it from being whole, as half a sentence; empty if nothing was found. Raises
    OSError when it cannot be read."""
    try:
        if is_dir:
            _directory(path)
        else:
            _named("the file", path)
    except NotWhole as error:
        return str(error)
    return ""


def _named(name: str, path: str) -> None:
    try:
        formats.check(path)
    except NotWhole as error:
        raise NotWhole("%s %s" % (name, error)) from None


def _directory(top: str) -> None:
    waiting = [""]
    seen = 0
    while waiting and seen < MAX_FILES:
        below = waiting.pop()
        files, directories = _inside(os.path.join(top, below))
        seen += len(files)
        _check_level(top, below, files, directories)
        waiting += [os.path.join(below, name) for name in directories]
    if not seen:
        raise NotWhole("nothing is in it")


def _inside(path: str) -> "tuple[list[str], list[str]]":
    files: "list[str]" = []
    directories: "list[str]" = []
    with os.scandir(path) as items:
        for item in items:
            # What a link names may well be elsewhere; it is read as the file that it stands for.
            (directories if item.is_dir(follow_symlinks=False) else files).append(item.name)
    return sorted(files), sorted(directories)


def _check_level(top: str, below: str, files: "list[str]", directories: "list[str]") -> None:
    here = os.path.join(top, below)
    if MANIFEST in files:
        _manifest(here)
    for name in files:
        if name.endswith(".index.json"):
            _index(here, name)
    if "latest" in files and not os.path.islink(os.path.join(here, "latest")):
        _latest(here, files + directories)
    if ".metadata" in files or any(name.endswith(".distcp") for name in files):
        _distributed(here, files)
    if "_CHECKPOINT_METADATA" in files:
        _orbax(here)
    for name in files:
        _named(os.path.join(below, name), os.path.join(here, name))


def _json(here: str, name: str) -> "Any":
    try:
        return wire.loads(read_file(os.path.join(here, name), MAX_INDEX).decode("utf-8"))
    except (ValueError, RecursionError):
        raise NotWhole("%s is cut off or damaged" % name) from None


def _part(here: str, name: str, by: str) -> int:
    """The size in bytes of a file that an index names."""
    if not name or ".." in name.split("/") or "\0" in name or name[:1] == "/":
        raise NotWhole("%s names what cannot be a part of it" % by)
    try:
        return os.stat(os.path.join(here, name)).st_size
    except FileNotFoundError:
        raise NotWhole("%s is missing, which %s names" % (name, by)) from None


def _manifest(here: str) -> None:
    """Carrel's own: `{"files": {NAME: {"size": BYTES, "sha256": HEXADECIMAL, if known}}}`."""
    told = _json(here, MANIFEST)
    files = told.get("files") if isinstance(told, dict) else None
    if not isinstance(files, dict) or not all(isinstance(one, dict) for one in files.values()):
        raise NotWhole("%s makes no sense" % MANIFEST)
    hashed = []
    for name, facts in sorted(files.items()):
        size = _part(here, name, MANIFEST)
        said = facts.get("size")
        if type(said) is not int:
            raise NotWhole("%s makes no sense" % MANIFEST)
        if size != said:
            raise NotWhole("%s has %d bytes, and %s says %d" % (name, size, MANIFEST, said))
        if isinstance(facts.get("sha256"), str):
            hashed.append((size, name))
    left = HASHED
    for size, name in sorted(hashed):
        left -= size
        if left < 0:
            break
        if _sha256(os.path.join(here, name)) != files[name]["sha256"].lower():
            raise NotWhole("%s differs from its checksum in %s" % (name, MANIFEST))


def _sha256(path: str) -> str:
    # Loaded only for those who ask for it: it takes longer than most looks.
    digest = __import__("hashlib").sha256()
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while True:
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                break
            digest.update(chunk)
    finally:
        os.close(fd)
    found: str = digest.hexdigest()
    return found


def _index(here: str, name: str) -> None:
    """Hugging Face's: `weight_map` names for each tensor the file (shard) that holds it.
    https://huggingface.co/docs/transformers/big_models"""
    told = _json(here, name)
    weights = told.get("weight_map") if isinstance(told, dict) else None
    if not isinstance(weights, dict):
        return  # Somebody else's.
    for shard in sorted(set(map(str, weights.values()))):
        _part(here, shard, name)


def _latest(here: str, names: "list[str]") -> None:
    """DeepSpeed's: names the directory of the newest step, and is written after it (its
    `engine.py`, `save_checkpoint`)."""
    tag = read_file(os.path.join(here, "latest"), 4096).decode("utf-8", "replace").strip()
    if not tag:
        raise NotWhole("the file latest is empty")
    if "/" not in tag and len(tag) < 256 and tag not in names:
        raise NotWhole("%s is missing, which the file latest names" % tag)


def _distributed(here: str, files: "list[str]") -> None:
    """PyTorch's: each rank writes `__RANK_NUMBER.distcp`, then one of them `.metadata`, which
    names them all; torch/distributed/checkpoint/filesystem.py, `_FileSystemWriter.finish`."""
    if ".metadata" not in files:
        raise NotWhole(".metadata is missing, which PyTorch writes when all shards are there")
    told = read_file(os.path.join(here, ".metadata"), MAX_INDEX)
    # A pickle begins and ends so; it is not run, as it may do anything.
    if told[:1] != b"\x80" or told[-1:] != b".":
        raise NotWhole(".metadata is cut off or damaged")
    for shard in _shards(told):
        if not _part(here, shard, ".metadata"):
            raise NotWhole("%s is empty" % shard)


def _shards(told: bytes) -> "list[str]":
    found = set()
    at = told.find(b".distcp")
    while at >= 0:
        start = told.rfind(b"__", max(0, at - 64), at)
        # `__0_1`: the underscores before are the name's own, not the one between the numbers.
        name = told[start:at] if start >= 0 else b""
        if name[2:].replace(b"_", b"").isdigit():
            found.add(name.decode("ascii") + ".distcp")
        at = told.find(b".distcp", at + 1)
    return sorted(found)


def _orbax(here: str) -> None:
    """Orbax notes there when it began and when it committed; where a rename does not commit, as
    on a mounted bucket, only that and `commit_success.txt` tell.
    https://orbax.readthedocs.io/en/latest/api_reference/checkpoint.path.atomicity.html"""
    told = _json(here, "_CHECKPOINT_METADATA")
    began = isinstance(told, dict) and told.get("init_timestamp_nsecs")
    done = began and told.get("commit_timestamp_nsecs")
    if began and not done and not os.path.exists(os.path.join(here, "commit_success.txt")):
        raise NotWhole("Orbax has not committed it")
