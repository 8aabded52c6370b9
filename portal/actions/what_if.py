"""Try a change on the jobs of a past time: ask for it, play it, end it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from jobs.scheduler.simulate.changes import (
    ChangeError,
    Changes,
    changed_nodes,
    changed_policy,
)
from jobs.scheduler.simulate.compare import Told, compare
from jobs.scheduler.simulate.quota_change import NAMES
from portal import hints
from portal.actions.quotas import check_names
from portal.models import Project, User, WhatIf
from portal.queries import accounts, machines, workload
from portal.queries.what_if import said, unfinished

State = WhatIf.State
LOST_AFTER = timedelta(seconds=60)
"""Without a sign of its process."""
LOST = "Its process was stopped before it was done, as when Carrel is started again."
FAILED = "Its process failed (exit code {}); the log of the worker says why."
COMMAND = (sys.executable, str(settings.BASE_DIR / "manage.py"), "what_if")
_playing: set[subprocess.Popen[bytes]] = set()


class Stopped(Exception):
    """It was cancelled, or given up."""


class TooLong(Exception):
    """It took more time than it may."""


def ask(
    *, actor: User, since: datetime, until: datetime, changes: Changes, now: datetime
) -> WhatIf:
    """It waits for its turn from now on. Raises `ValidationError`."""
    told = _checked(since, until, changes, now)
    try:
        with transaction.atomic():
            row = WhatIf.objects.create(
                asked_by=actor, asked_at=now, since=since, until=until,
                changes=asdict(changes), said=told,
            )  # fmt: skip
    except IntegrityError as error:
        raise ValidationError(
            "One that you asked for is not done yet. Wait for it, or cancel it."
        ) from error
    hints.what_if()
    return row


def _checked(since: datetime, until: datetime, changes: Changes, now: datetime) -> list[list[str]]:
    try:
        changed_policy(accounts.policy(), changes)
        changed_nodes(machines.reported(), changes.nodes)
        _check_names(changes)
        told = said(changes)
        number = workload.number_of(since, until, now)
        workload.check_number(number)
    except (ChangeError, ValueError) as error:
        raise ValidationError(str(error)) from error
    except Project.DoesNotExist as error:
        raise ValidationError("One of the projects is gone.") from error
    if not told:
        raise ValidationError("Nothing would change. Say what is to be tried.")
    if not number:
        raise ValidationError("No job is of that time. Choose a longer or another one.")
    return told


def _check_names(changes: Changes) -> None:
    """One that is gone since would allow nothing, as a mistyped one."""
    try:
        for change in changes.quotas:
            check_names({name: getattr(change, name) for name in NAMES})
    except ValidationError as error:
        raise ValidationError(error.messages) from error


def ask_again(*, row: WhatIf, actor: User, now: datetime) -> WhatIf:
    """The same for the same time, with the lab as it is now. Raises `ValidationError`."""
    changes = Changes.read(row.changes)
    return ask(actor=actor, since=row.since, until=row.until, changes=changes, now=now)


def cancel(*, row: WhatIf, actor: User, now: datetime) -> bool:
    """False when it has ended already."""
    found = WhatIf.objects.filter(pk=row.pk, state__in=WhatIf.UNFINISHED)
    done = found.update(state=State.CANCELLED, ended_at=now, detail=f"Cancelled by {actor}.")
    return bool(done)


def play_next(*, clock: Callable[[], datetime]) -> bool:
    """Have the one that waits longest played by a process of its own, and wait for that.

    False where there is none, or another one is at it.
    """
    row = _begin(clock())
    if row is None:
        return False
    code = _wait_for((*COMMAND, str(row.pk), "--parent", str(os.getpid())))
    if code:
        why = LOST if code < 0 else FAILED.format(code)
        fail(pk=row.pk, why=why, now=clock())
    return True


def interrupt() -> None:
    """End what is played by this process: it is about to end itself."""
    for process in list(_playing):
        process.terminate()


def _wait_for(command: tuple[str, ...]) -> int:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        _playing.add(process)
        try:
            return process.wait()
        finally:
            _playing.discard(process)


def _begin(now: datetime) -> WhatIf | None:
    for row in WhatIf.objects.filter(state=State.WAITING).order_by("pk")[:1]:
        mine = WhatIf.objects.filter(pk=row.pk, state=State.WAITING)
        try:
            with transaction.atomic():
                if mine.update(state=State.RUNNING, begun_at=now, seen_at=now):
                    return row
        except IntegrityError:
            return None  # Another one runs.
    return None


def play(*, pk: int, clock: Callable[[], datetime], told: Told) -> None:
    """Do it. `told` may raise `Stopped` or `TooLong`."""
    row = WhatIf.objects.get(pk=pk)
    try:
        told(0.0)
        changes = Changes.read(row.changes)
        past = workload.read(row.since, row.until, clock(), changes.quotas)
        both = compare(past.workload, past.policy, changes, told)
    except Stopped:
        return
    except (ChangeError, TooLong, workload.TooMany) as error:
        fail(pk=pk, why=str(error), now=clock())
        return
    finish(
        pk=pk,
        now=clock(),
        result={
            "now": both.now.as_json(),
            "then": both.then.as_json(),
            "differ": both.differ,
            "real": asdict(past.real),
            "jobs": past.jobs,
            "before": past.before,
            "left_out": list(past.left_out),
        },
    )


def note(*, pk: int, progress: float, now: datetime) -> bool:
    """It is at work, and so far; False when it is to stop."""
    return bool(_running(pk).update(progress=progress, seen_at=now))


def finish(*, pk: int, result: dict[str, Any], now: datetime) -> None:
    """It is done."""
    _running(pk).update(state=State.DONE, progress=1.0, ended_at=now, result=result)


def fail(*, pk: int, why: str, now: datetime) -> None:
    """It is given up, and says why."""
    _running(pk).update(state=State.FAILED, ended_at=now, detail=why)


def sweep(*, now: datetime) -> None:
    """Give up what shows no sign any more, and have the next one begun."""
    if not unfinished(now - LOST_AFTER):
        return
    lost = Q(state=State.RUNNING, seen_at__lt=now - LOST_AFTER)
    WhatIf.objects.filter(lost).update(state=State.FAILED, ended_at=now, detail=LOST)
    if WhatIf.objects.filter(state=State.WAITING).exists():
        hints.what_if()


def _running(pk: int) -> QuerySet[WhatIf]:
    return WhatIf.objects.filter(pk=pk, state=State.RUNNING)
