"""JSON without the `json` package, whose loading takes as long as starting Python itself.

The C parts of it do the work, the way the package calls them. Where they are missing or refuse,
the package is loaded after all: for its words about what is wrong, at the least.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Settings:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


try:
    import _json

    _scan: "Any" = _json.make_scanner(_Settings())  # type: ignore[arg-type]
    _make_encoder: "Any" = _json.make_encoder
    _encode: "Any" = _make_encoder(
        None, None, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
except (ImportError, AttributeError, TypeError):
    _scan = _encode = None


def loads(text: str) -> "Any":
    """The value of a JSON text; raises ValueError."""
    try:
        value, end = _scan(text, 0)
        if not text[end:].strip():
            return value
    except (TypeError, StopIteration, ValueError):
        pass
    return __import__("json").loads(text)


def dumps(value: "Any") -> bytes:
    """The JSON text of a value, in ASCII."""
    try:
        return "".join(_encode(value, 0)).encode("ascii")
    except TypeError:
        text: str = __import__("json").dumps(value)
        return text.encode("ascii")
