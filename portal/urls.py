"""Addresses: each room's view module lists its own."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("portal.views.overview")),
    path("", include("portal.views.queue")),
    path("", include("portal.views.array")),
    path("", include("portal.views.submit")),
    path("", include("portal.views.job")),
    path("", include("portal.views.sooner")),
    path("", include("portal.views.log")),
    path("", include("portal.views.nodes")),
    path("", include("portal.views.add_node")),
    path("", include("portal.views.describe")),
    path("", include("portal.views.findings")),
    path("", include("portal.views.projects")),
    path("", include("portal.views.edit_project")),
    path("", include("portal.views.usage")),
    path("", include("portal.views.reservations")),
    path("", include("portal.views.lab")),
    path("", include("portal.views.sharing")),
    path("", include("portal.views.what_if")),
    path("", include("portal.views.account")),
    path("", include("portal.views.streams")),
    path("", include("portal.views.health")),
    path("admin/", admin.site.urls),
]
