"""What takes a whole pass or more is worked out for one question of a person at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from portal import broker
from portal.models import User

LONGEST_S = 120.0
"""A person who asks again is kept waiting no longer, should the process have died that works."""


@contextmanager
def one_at_a_time(kind: str, person: User) -> Iterator[bool]:
    """Whether no other question of this kind is being worked out for this person.

    Who asks again and again, or types, shall not slow down all others. Without Redis nobody is
    held up.
    """
    flag = f"{kind}-for:{person.pk}"
    free = broker.first(flag, LONGEST_S)
    try:
        yield free
    finally:
        if free:
            broker.clear(flag)
