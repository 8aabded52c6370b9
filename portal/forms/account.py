"""Forms of a person's own account."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, SetPasswordForm

from portal.models import User


class SignInForm(AuthenticationForm):
    """Account name and password."""

    error_messages = {
        "invalid_login": "That account name and password do not belong together. "
        "Mind capital and small letters.",
        "inactive": "This account is not active; ask an administrator.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "Account name"
        _dress(self)


class NameForm(forms.ModelForm):
    """How a person is called on the pages."""

    class Meta:
        model = User
        fields = ["first_name", "last_name"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["first_name"].widget.attrs["autocomplete"] = "given-name"
        self.fields["last_name"].widget.attrs["autocomplete"] = "family-name"
        _dress(self)


class NewPasswordForm(SetPasswordForm):
    """For whoever has no password yet, or came by a one-time link."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _dress(self)


class OtherPasswordForm(PasswordChangeForm):
    """For whoever has one: it is asked for first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["old_password"].widget.attrs["autofocus"]
        _dress(self)


def _dress(form: forms.BaseForm) -> None:
    for field in form.fields.values():
        field.label_suffix = ""
        field.widget.attrs.setdefault("class", "form-control")
