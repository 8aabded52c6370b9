"""`/healthz`, for monitors: which part gave no recent sign of life."""

from __future__ import annotations

import redis
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_safe

from portal import broker, signs


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "does not answer"
    return "ok"


def _redis() -> str:
    try:
        broker.connection().ping()
    except redis.RedisError:
        return "does not answer"
    return "ok"


def _process(part: str, redis_said: str) -> str:
    """Redis is not asked again when it did not answer: each wait for it takes seconds."""
    if redis_said != "ok":
        return f"unknown: Redis {redis_said}"
    try:
        return "ok" if signs.is_alive(part) else f"no sign of life for {signs.FRESH_S} s"
    except redis.RedisError:
        return "unknown: Redis does not answer"


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 when every part is well, else 503; `parts` says which is not, in words."""
    redis_said = _redis()
    parts = {
        "web": "ok",
        "database": _database(),
        "redis": redis_said,
        "worker": _process("worker", redis_said),
        "beat": _process("beat", redis_said),
    }
    well = all(word == "ok" for word in parts.values())
    return JsonResponse(
        {"status": "ok" if well else "degraded", "parts": parts}, status=200 if well else 503
    )


urlpatterns = [path("healthz", healthz, name="healthz")]
