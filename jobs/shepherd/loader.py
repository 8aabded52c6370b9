"""Carrel's shepherd: starts, watches and ends runs on this machine.

It carries its modules packed into one line, because Python reads a program's every line anew
for each call; `python3 FILE source` prints them. Compiling them takes longer than most calls,
so the compiled form is kept beside this file, one for each exact Python version.
"""

import binascii
import marshal
import os
import sys

PACKED = b""


def _sources() -> "dict[str, str]":
    """The text of each module by its name."""
    found: "dict[str, str]" = marshal.loads(  # our own text  # nosec B302
        __import__("zlib").decompress(binascii.a2b_base64(PACKED))
    )
    return found


def _compiled() -> "dict[str, bytes]":
    """The code of each module by its name, marshalled."""
    tag = sys.implementation.cache_tag or "python"
    cache = "%s.%s.%x" % (os.path.abspath(__file__), tag, sys.hexversion)
    try:
        with open(cache, "rb") as stream:
            found = marshal.loads(stream.read())  # our own writing  # nosec B302
        if isinstance(found, dict) and "main" in found:
            return found
    except (OSError, ValueError, EOFError, TypeError):
        pass
    codes = {
        name: marshal.dumps(compile(text, "shepherd/%s.py" % name, "exec", 0, True))
        for name, text in _sources().items()
    }
    mine = "%s.%d" % (cache, os.getpid())
    try:
        fd = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as stream:
            stream.write(marshal.dumps(codes))
        os.rename(mine, cache)
    except OSError:
        pass  # A full disk must not keep us from telling what runs here.
    return codes


class _Carried:
    """Finds and loads `shepherd.*` from the compiled modules."""

    def __init__(self, codes: "dict[str, bytes]") -> None:
        self.codes = codes

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != "shepherd" and name[:9] != "shepherd.":
            return None
        return type(sys.__spec__)(name, self, is_package=name == "shepherd")  # type: ignore

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: "object") -> None:
        name = module.__name__  # type: ignore
        if name != "shepherd":
            # Our own modules, which travel in this file.
            exec(marshal.loads(self.codes[name[9:]]), module.__dict__)  # nosec B102, B302


if __name__ == "__main__":
    if sys.argv[1:] == ["source"]:
        for _name, _text in _sources().items():
            sys.stdout.write("# shepherd/%s.py\n%s\n" % (_name, _text))
        sys.exit()
    sys.meta_path.insert(0, _Carried(_compiled()))  # type: ignore
    __import__("shepherd.main", None, None, ["main"]).main(sys.argv[1:])
