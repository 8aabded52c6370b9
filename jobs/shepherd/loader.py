"""Carrel's shepherd: starts, watches and ends runs on this machine.

Built from the modules below, which are plain source. Compiling them takes longer than most
calls, so the compiled form is kept beside this file, one for each exact Python version.
"""

import marshal
import os
import sys

MODULES: "dict[str, str]" = {}


def _compiled() -> "dict[str, object]":
    tag = sys.implementation.cache_tag or "python"
    cache = "%s.%s.%x" % (os.path.abspath(__file__), tag, sys.hexversion)
    try:
        with open(cache, "rb") as stream:
            found = marshal.load(stream)
        if isinstance(found, dict) and found.keys() == MODULES.keys():
            return found
    except (OSError, ValueError, EOFError, TypeError):
        pass
    codes: "dict[str, object]" = {
        name: compile(text, "shepherd/%s.py" % name, "exec", 0, True)
        for name, text in MODULES.items()
    }
    mine = "%s.%d" % (cache, os.getpid())
    try:
        fd = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as stream:
            marshal.dump(codes, stream)
        os.rename(mine, cache)
    except OSError:
        pass  # A full disk must not keep us from telling what runs here.
    return codes


class _Carried:
    """Finds and loads `shepherd.*` from the compiled modules."""

    def __init__(self, codes: "dict[str, object]") -> None:
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
            exec(self.codes[name[9:]], module.__dict__)  # type: ignore


if __name__ == "__main__":
    sys.meta_path.insert(0, _Carried(_compiled()))  # type: ignore
    __import__("shepherd.main", None, None, ["main"]).main(sys.argv[1:])
