"""An array's buttons, and its tasks by label; its page is a list (`portal.views.queue`)."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.scheduler.words import count
from portal.actions.cancel import Cancelled, cancel_array
from portal.actions.hold import Released, hold_array, release_array
from portal.models import Job, User
from portal.queries import arrays
from portal.views import hold as holds
from portal.views.refusals import refuse_strangers
from portal.views.requests import PageRequest


@require_safe
def task(request: PageRequest, array_id: int, index: int) -> HttpResponse:
    """The page of one of its tasks, by the label that people and sentences call it by."""
    found = Job.objects.filter(array_id=array_id, array_index=index).first()
    if found is None:
        raise Http404(f"There is no job {array_id}_{index}.")
    return redirect("job", pk=found.pk)


@require_http_methods(["GET", "HEAD", "POST"])
def cancel_page(request: PageRequest, array_id: int) -> HttpResponse:
    """Ask for confirmation; end its tasks when it was given."""
    head = _changeable(request, array_id)
    if request.method != "POST":
        context = {"head": head, "left": arrays.left(array_id)}
        return render(request, "array/cancel.html", context)
    done = cancel_array(array_id=array_id, actor=request.user, now=timezone.now())
    if any(done):
        messages.success(request, f"Array {array_id}: {_words(done)}.")
    else:
        ended = f"every task of array {array_id} has ended or ends"
        messages.info(request, f"There was nothing to cancel: {ended}.")
    return _opened(array_id)


def _words(done: Cancelled) -> str:
    waiting = f"cancelled {count(done.waiting, 'task')} that waited"
    active = f"ending {count(done.active, 'task')} with a signal and time to save first"
    told = zip((waiting, active), done, strict=True)
    return " and ".join(words for words, number in told if number)


@require_http_methods(["GET", "HEAD", "POST"])
def hold(request: PageRequest, array_id: int) -> HttpResponse:
    """Keep its waiting tasks from starting. Administrators are asked why."""
    head = _changeable(request, array_id)
    form, called = holds.sent(request), f"array {array_id}"
    if not form.is_valid():
        back = _address(array_id)
        return holds.ask(request, form, called=called, owner=head.owner, back=back)
    now, why = timezone.now(), form.cleaned_data["why"]
    if held := hold_array(array_id=array_id, actor=request.user, now=now, why=why):
        tasks = count(held, "waiting task")
        messages.success(
            request, f"Array {array_id}: held {tasks}. What is held does not start until released."
        )
    else:
        messages.info(
            request, f"Array {array_id} has no task to hold: none waits that is not held already."
        )
    return _opened(array_id)


@require_POST
def release(request: PageRequest, array_id: int) -> HttpResponse:
    """Let its held tasks wait for their turn again."""
    head = _changeable(request, array_id)
    done = release_array(array_id=array_id, actor=request.user, now=timezone.now())
    if any(done):
        messages.success(request, f"Array {array_id}: {_released(done, request.user, head.owner)}")
    else:
        messages.info(request, f"Array {array_id} has no held task that you may release.")
    return _opened(array_id)


def _released(done: Released, actor: User, owner: User) -> str:
    free = f"released {count(done.free, 'held task')} to wait for a turn again."
    other = f"their owner, {owner}" if actor != owner else "an administrator"
    still = f"{count(done.still_held, 'task')} left held by {other}."
    return " ".join(words for words, number in zip((free, still), done, strict=True) if number)


def _changeable(request: PageRequest, array_id: int) -> Job:
    """Its first job; all of an array's jobs are of one owner."""
    head = arrays.head(array_id)
    if head is None:
        raise Http404(f"There is no array {array_id}.")
    refuse_strangers(request, head, called=f"Array {array_id}")
    return head


def _address(array_id: int) -> str:
    return f"{reverse('queue')}?array={array_id}&state=all"


def _opened(array_id: int) -> HttpResponse:
    return redirect(_address(array_id))


urlpatterns = [
    path("jobs/<int:array_id>_<int:index>/", task, name="task"),
    path("arrays/<int:array_id>/cancel/", cancel_page, name="cancel-array"),
    path("arrays/<int:array_id>/hold/", hold, name="hold-array"),
    path("arrays/<int:array_id>/release/", release, name="release-array"),
]
