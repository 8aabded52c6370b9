"""Pages as somebody gets them."""

from __future__ import annotations

from django.test import Client

from portal.models import Job


def job_page(client: Client, job: Job, part: str = "") -> str:
    response = client.get(f"/jobs/{job.pk}/{part}")
    assert response.status_code == 200
    return response.text
