"""Two changes of the tree that are harmless alone and do harm together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

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


def test_what_is_above_is_archived_while_what_is_below_is_restored(transactional_db: None) -> None:
    above = Project.objects.create(name="above")
    below = Project.objects.create(name="below", parent=above)

    def archive() -> None:
        with suppress(ValidationError):
            projects.archive(project=Project.objects.get(pk=above.pk), actor=None, now=NOW)

    def restore() -> None:
        with suppress(ValidationError):
            projects.restore(project=Project.objects.get(pk=below.pk), actor=None, now=NOW)

    for _ in range(20):
        Project.objects.filter(pk=above.pk).update(archived_at=None)
        Project.objects.filter(pk=below.pk).update(archived_at=NOW)
        at_once(archive, restore)
        is_archived = {row.name: bool(row.archived_at) for row in Project.objects.all()}
        assert is_archived["above"] == is_archived["below"], "one of them came first"
