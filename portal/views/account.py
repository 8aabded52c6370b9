"""Sign in and out, one-time links, and one's own account."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh

from portal.actions import signin
from portal.forms.account import NameForm, NewPasswordForm, OtherPasswordForm, SignInForm
from portal.models import User
from portal.views.requests import PageRequest

BY_LINK = "signed_in_by_link"
"""In the session of whoever came by a one-time link: may set a password without the old one."""


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):
    """The sign-in page. A part of a page that was refused for want of a session reloads it all."""

    template_name = "account/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.headers.get("HX-Request") and not request.user.is_authenticated:
            return HttpResponseClientRefresh()
        return super().dispatch(request, *args, **kwargs)


@login_not_required
@never_cache
@require_safe
def link(request: PageRequest, token: str) -> HttpResponse:
    """Ask before the link is used up, so that a preview of it in a chat does not do so."""
    person = signin.look(token=token, now=timezone.now())
    return _link_page(request, {"person": person, "token": token})


@login_not_required
@never_cache
@require_POST
@sensitive_post_parameters("token")
def enter(request: PageRequest) -> HttpResponse:
    """Redeem a one-time link. Its token comes in the body, never in an address."""
    person = signin.redeem(token=request.POST.get("token", ""), now=timezone.now())
    if person is None:
        return _link_page(request, {"person": None}, status=410)
    login(request, person)
    request.session[BY_LINK] = True
    if not person.has_usable_password():
        messages.info(
            request,
            "You are signed in. Set a password under your name to come back without a link.",
        )
    return redirect("overview")


def _link_page(request: PageRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    response = render(request, "account/link.html", context, status=status)
    # The token in the address goes nowhere. With "no-referrer" a browser would leave the origin
    # out of the form's answer too, and that is then refused as forged.
    response["Referrer-Policy"] = "strict-origin"
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters()
def account(request: PageRequest) -> HttpResponse:
    """Name and password; each form is sent by itself."""
    person = request.user
    sent = request.POST.get("form")
    name = NameForm(request.POST if sent == "name" else None, instance=person)
    kind = NewPasswordForm if _may_set_anew(request, person) else OtherPasswordForm
    password = kind(person, request.POST if sent == "password" else None)
    if sent == "name" and name.is_valid():
        name.save()
        messages.success(request, "Your name is saved.")
        return redirect("account")
    if sent == "password" and password.is_valid():
        password.save()
        update_session_auth_hash(request, person)
        request.session.pop(BY_LINK, None)
        messages.success(request, "Your password is set. Other sessions of yours were signed out.")
        return redirect("account")
    person.refresh_from_db()
    memberships = person.memberships.select_related("project").order_by("project__name")
    context = {"name_form": name, "password_form": password, "memberships": memberships}
    wrong = name.is_bound or password.is_bound
    return render(request, "account/account.html", context, status=422 if wrong else 200)


def _may_set_anew(request: PageRequest, person: User) -> bool:
    return not person.has_usable_password() or bool(request.session.get(BY_LINK))


urlpatterns = [
    path("sign-in/", SignIn.as_view(), name="sign-in"),
    path("sign-out/", login_not_required(LogoutView.as_view()), name="sign-out"),
    path("enter/", enter, name="enter"),
    path("enter/<str:token>/", link, name="enter"),
    path("account/", account, name="account"),
]
