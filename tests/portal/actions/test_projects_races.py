"""Two changes of the tree that are harmless alone and make a circle together."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import ValidationError

from portal.actions import projects
from portal.models import Project
from portal.queries import accounts
from tests.portal.cast import NOW
from tests.portal.together import at_once


def test_two_that_go_under_each_other(transactional_db: None) -> None:
    one, other = (Project.objects.create(name=name) for name in ("one", "other"))
    for _ in range(10):
        refusals: list[ValidationError] = []

        def move(
            project: Project, parent: Project, refusals: list[ValidationError] = refusals
        ) -> Callable[[], None]:
            def moves() -> None:
                try:
                    projects.move(
                        project=Project.objects.get(pk=project.pk),
                        parent=parent,
                        actor=None,
                        now=NOW,
                    )
                except ValidationError as error:
                    refusals.append(error)

            return moves

        at_once(move(one, other), move(other, one))
        assert len(refusals) == 1
        top = Project.objects.get(parent=None)
        assert accounts.below(top.pk) == {one.pk, other.pk}
        Project.objects.update(parent=None)
