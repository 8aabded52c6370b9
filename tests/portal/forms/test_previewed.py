"""What was previewed is what is saved."""

from __future__ import annotations

from portal.forms.projects import MemberForm
from portal.models import Project, User
from tests.portal import cast


def test_people_of_the_same_name_are_not_taken_for_each_other(project: Project) -> None:
    twins = [cast.person(name) for name in ("kim", "kim2")]
    User.objects.update(first_name="Kim", last_name="Lee")

    def digest(username: str) -> str:
        form = MemberForm({"user": username, "shares": "1"}, project=project, member=None)
        assert form.is_valid()
        return form.digest

    assert str(User.objects.get(pk=twins[0].pk)) == str(User.objects.get(pk=twins[1].pk))
    assert digest("kim") == digest("kim")
    assert digest("kim") != digest("kim2")
