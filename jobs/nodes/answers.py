"""From a node's JSON to our frozen values, believing nothing.

A node may be broken, out of memory or another version: a wrong type is told with its place, and
never reaches the database.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import types
import typing
from enum import Enum
from typing import Any, TypeVar, cast

T = TypeVar("T")


class BadAnswer(ValueError):
    """What came is not what was asked for; the message names the place in it."""


def decode(kind: type[T], value: object, place: str = "answer") -> T:
    """Build a dataclass, or any type that occurs in one, from parsed JSON.

    Bytes come as base64, tuples as lists, enumerations by value. Fields that we do not know are
    passed over, a missing field takes its default. Raises `BadAnswer`.
    """
    return cast(T, _decode(kind, value, place))


def _decode(kind: Any, value: Any, place: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(kind) if part is not type(None)]
        return None if value is None else _decode(inner[0], value, place)
    if origin is tuple:
        (item, _) = typing.get_args(kind)
        parts = enumerate(_typed(list, value, place))
        return tuple(_decode(item, part, f"{place}[{n}]") for n, part in parts)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, _typed(dict, value, place), place)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value, place)
    if kind is bytes:
        return _bytes(value, place)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str:
        return _text(_typed(str, value, place))
    return _typed(kind, value, place)


def _typed(kind: type[T], value: object, place: str) -> T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadAnswer(f"{place} is a {type(value).__name__}, not a {kind.__name__}")
    return value


def _dataclass(kind: Any, value: dict[str, Any], place: str) -> Any:
    given = {}
    for name, hint, required in _fields(kind):
        if name in value:
            given[name] = _decode(hint, value[name], f"{place}.{name}")
        elif required:
            raise BadAnswer(f"{place} has no {name}")
    return kind(**given)


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Name, type, and whether it must be there."""
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return tuple(
        (field.name, hints[field.name], field.default is missing is field.default_factory)
        for field in dataclasses.fields(kind)
    )


def _member(kind: type[Enum], value: object, place: str) -> Enum:
    try:
        return kind(value)
    except ValueError as error:
        known = ", ".join(str(member.value) for member in kind)
        raise BadAnswer(f"{place} is {value!r}, not one of {known}") from error


def _bytes(value: object, place: str) -> bytes:
    try:
        return base64.b64decode(_typed(str, value, place), validate=True)
    except binascii.Error as error:
        raise BadAnswer(f"{place} is not base64") from error


def _text(value: str) -> str:
    """Text that a database takes: no NUL and no halves of surrogate pairs."""
    clean = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
