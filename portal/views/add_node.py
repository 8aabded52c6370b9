"""In the making."""

urlpatterns: list[object] = []
