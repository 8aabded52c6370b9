"""Who: people, their projects, and one-time links to sign in with."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.core.validators import MaxValueValidator, RegexValidator
from django.db import models

from jobs.scheduler.fairshare import MAX_SHARES

WITHIN_SHARES = MaxValueValidator(MAX_SHARES)


class User(AbstractUser):
    """A person. `is_staff` marks an administrator of the lab."""

    def __str__(self) -> str:
        return self.get_full_name() or self.username


class Project(models.Model):
    """What jobs are accounted to: a node of a tree, whose limits hold for all below it, too."""

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[
            RegexValidator(
                r"^[a-z0-9][a-z0-9._-]*\Z",
                "Use small letters, digits, '.', '_' and '-', beginning with a letter or digit.",
            )
        ],
    )
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    """Changed by `portal.actions.projects` alone, which keeps it a tree."""
    shares = models.PositiveIntegerField(default=1, validators=[WITHIN_SHARES])
    """Beside those of its siblings, and of the members of the project above."""
    lends = models.BooleanField(default=False)
    """Its children lend each other what they do not use of their quotas of GPUs."""
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)
    """No more jobs are taken in; past ones still name it."""
    members = models.ManyToManyField(User, through="Membership", related_name="projects")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person may submit to a project; a lead is named there as the one to ask."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    shares = models.PositiveIntegerField(default=1, validators=[WITHIN_SHARES])
    """Beside those of the project's other members and of its sub-projects."""
    lead = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project"], name="one_membership")]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"


class SignInLink(models.Model):
    """A link that signs its person in once. Only the token's digest is kept."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"link for {self.user}"
