"""Django's administration, for what has no page of its own yet: people, projects, partitions."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from portal.actions.changes import Changes
from portal.models import Event, Membership, Partition, Project, User
from portal.queries import rights

admin.site.site_header = "Carrel"
admin.site.site_title = "Carrel"
admin.site.index_title = "People, projects and partitions"
# Rights come from `portal.queries.rights`; groups would be a setting that does nothing.
admin.site.unregister(Group)


class ByAdministrators:
    """One rule in place of Django's permissions: administrators of the lab may do all this."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return rights.may_administer(request.user)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return rights.may_administer(request.user)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return rights.may_administer(request.user)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return rights.may_administer(request.user)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What jobs name stays: `PROTECT` would refuse it at the end anyway."""
        kept = obj is not None and hasattr(obj, "jobs") and obj.jobs.exists()
        return rights.may_administer(request.user) and not kept


class _Members(ByAdministrators, admin.TabularInline):
    model = Membership
    extra = 1
    fields = ["user"]
    autocomplete_fields = ["user"]


class _Projects(ByAdministrators, admin.TabularInline):
    model = Membership
    extra = 1
    fields = ["project"]
    autocomplete_fields = ["project"]


@admin.register(User)
class PersonAdmin(ByAdministrators, UserAdmin):
    """A person, with the projects they may submit to. Whoever has jobs is not deleted but
    made inactive."""

    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Rights", {"fields": ("is_active", "is_staff")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    filter_horizontal = ()
    list_filter = ("is_staff", "is_active", "projects")
    inlines = [_Projects]


@admin.register(Project)
class ProjectAdmin(ByAdministrators, admin.ModelAdmin):
    """A project and its members."""

    fields = ["name", "title", "description"]
    list_display = ["name", "title"]
    search_fields = ["name", "title"]
    inlines = [_Members]


_OF_PARTITION = ("name", "is_default")


@admin.register(Partition)
class PartitionAdmin(ByAdministrators, admin.ModelAdmin):
    """A set of nodes that jobs ask for by name. Its terms have a page of their own."""

    fields = _OF_PARTITION
    list_display = _OF_PARTITION

    def save_model(self, request: HttpRequest, obj: Partition, form: Any, change: bool) -> None:
        """With its event, as all settings have."""
        before = Partition.objects.filter(pk=obj.pk).values(*_OF_PARTITION).first() or {}
        super().save_model(request, obj, form, change)
        changes = {
            name: [before.get(name), getattr(obj, name)]
            for name in _OF_PARTITION
            if before.get(name) != getattr(obj, name)
        }
        if changes:
            _tell("partition set" if change else "partition added", obj, request, changes)

    def delete_model(self, request: HttpRequest, obj: Partition) -> None:
        super().delete_model(request, obj)
        _tell("partition removed", obj, request, {"name": [obj.name, None]})

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Partition]) -> None:
        for partition in queryset:
            self.delete_model(request, partition)


def _tell(kind: str, partition: Partition, request: HttpRequest, changes: Changes) -> None:
    Event.objects.create(
        at=timezone.now(), kind=kind, detail=partition.name, actor_id=request.user.pk,
        changes=changes,
    )  # fmt: skip
