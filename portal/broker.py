"""The one Redis connection pool of this process, for hints, flags and signs of life."""

from __future__ import annotations

from functools import cache

import redis
from django.conf import settings


@cache
def connection() -> redis.Redis:
    """A client with short deadlines: a hint that cannot be given now is not worth waiting for."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=3, socket_connect_timeout=1, decode_responses=True
    )


def first(flag: str, seconds: float) -> bool:
    """True for the first to ask within `seconds`, and whenever Redis does not answer.

    Only ever used to leave out double work, so a wrong True costs time and nothing else.
    """
    try:
        return bool(connection().set(f"carrel:{flag}", 1, nx=True, px=int(seconds * 1000)))
    except redis.RedisError:
        return True


def clear(flag: str) -> None:
    """Take a flag down, if Redis answers."""
    try:
        connection().delete(f"carrel:{flag}")
    except redis.RedisError:
        return


def extend(flag: str, seconds: float) -> None:
    """Keep a flag up for longer, if Redis answers."""
    try:
        connection().set(f"carrel:{flag}", 1, px=int(seconds * 1000))
    except redis.RedisError:
        return


def left(flag: str) -> float:
    """Seconds for which a flag is still up; 0 if it is down, or Redis does not answer."""
    try:
        return max(0, connection().pttl(f"carrel:{flag}")) / 1000
    except redis.RedisError:
        return 0.0


def keep(name: str, text: str, seconds: float) -> None:
    """Have `kept` tell this text for a while, if Redis answers."""
    try:
        connection().set(f"carrel:{name}", text, px=int(seconds * 1000))
    except redis.RedisError:
        return


def kept(name: str) -> str | None:
    """What `keep` was given, unless it is too old or Redis does not answer."""
    try:
        found = connection().get(f"carrel:{name}")
    except redis.RedisError:
        return None
    return str(found) if found is not None else None
