"""Django's administration, for what has no page of its own yet: people and partitions."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from portal.actions import partitions
from portal.actions.changes import Changes
from portal.models import Event, Partition, User
from portal.queries import rights
from portal.queries.partitions import quotas_naming

admin.site.site_header = "Carrel"
admin.site.site_title = "Carrel"
admin.site.index_title = "People and partitions"
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


class WithEvents(ByAdministrators, admin.ModelAdmin):
    """Each change is an event that says what was before, as of all settings."""

    noun: ClassVar[str]
    told: ClassVar[tuple[str, ...]]
    """The fields that its events tell of, its name first."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        before = self.model.objects.filter(pk=obj.pk).values(*self.told).first() or {}
        super().save_model(request, obj, form, change)
        changes = {
            name: [before.get(name), getattr(obj, name)]
            for name in self.told
            if before.get(name) != getattr(obj, name)
        }
        if changes:
            self._tell("set" if change else "added", obj, request, changes)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        super().delete_model(request, obj)
        name = self.told[0]
        self._tell("removed", obj, request, {name: [getattr(obj, name), None]})

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def _tell(
        self, done: str, obj: Any, request: HttpRequest, changes: Changes | None = None
    ) -> None:
        Event.objects.create(
            at=timezone.now(), kind=f"{self.noun} {done}", detail=getattr(obj, self.told[0]),
            actor_id=request.user.pk, changes=changes,
        )  # fmt: skip


@admin.register(User)
class PersonAdmin(WithEvents, UserAdmin):
    """A person. Whoever has jobs, is in a project or has nodes reserved is not deleted but made
    inactive; projects and their members have pages of their own."""

    noun = "person"
    told = ("username", "first_name", "last_name", "email", "is_active", "is_staff")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Rights", {"fields": ("is_active", "is_staff")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()
    list_filter = ("is_staff", "is_active", "projects")

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        kept = obj is not None and (obj.memberships.exists() or obj.reservations.exists())
        return super().has_delete_permission(request, obj) and not kept

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        before = self._password(id)
        answer = super().user_change_password(request, id, form_url)
        if before != self._password(id):
            self._tell("password set", User.objects.get(pk=id), request)
        return answer

    def _password(self, pk: str) -> str | None:
        known = User.objects.filter(pk=pk) if pk.isdecimal() else User.objects.none()
        return known.values_list("password", flat=True).first()


class PartitionForm(forms.ModelForm):
    """Its name follows wherever something names it; the practice lab's is fixed."""

    class Meta:
        model = Partition
        fields = ("name", "is_default")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if "name" in data:
            partitions.check_name(self.instance, data["name"])
        return data


@admin.register(Partition)
class PartitionAdmin(WithEvents):
    """A set of nodes that jobs ask for by name. Its terms have a page of their own."""

    noun = "partition"
    form = PartitionForm
    told = list_display = ("name", "is_default")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            assert isinstance(request.user, User)
            now = timezone.now()
            partitions.rename(partition=obj, name=obj.name, actor=request.user, now=now)
        super().save_model(request, obj, form, change)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Quotas that name one keep it, as its jobs and nodes do: nobody could be allowed it any
        more, nor its place be taken."""
        *found, protected = super().get_deleted_objects(objs, request)
        named = {row.name for row in objs}
        quotas = [f"Quota of {quota}" for quota in quotas_naming(named)]
        return *found, [*protected, *quotas]
