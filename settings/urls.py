"""The reference project's pages: the admin, and whether the process is alive."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.generic import RedirectView


def healthz(request: HttpRequest) -> HttpResponse:
    """Answer that this process serves requests; it asks neither the database nor the broker."""
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("healthz", healthz),
]
