"""The desk's workers: what their pages show, and who may drain them."""

from __future__ import annotations

import html
import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from celeriac.guard import drains
from celeriac.models import Control, Live, Worker
from dlq_admin import forms
from tests.support import letters
from tests.support.people import staff

pytestmark = pytest.mark.django_db

WORKERS = "/admin/celeriac/worker/"
DRAIN, RESUME = f"{WORKERS}turn/drain/", f"{WORKERS}turn/resume/"


@pytest.fixture
def amy() -> Client:
    """Somebody who may drain workers, and nothing else."""
    client = Client()
    client.force_login(staff("amy", "view_worker", "drain_worker"))
    return client


def detail(on: Worker) -> str:
    return f"{WORKERS}{on.pk}/change/"


def body(response: Any) -> str:
    return html.unescape(response.content.decode())


def said(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def confirmed(*workers: Worker, reason: str = "new kernel") -> dict[str, str]:
    return {"workers": ",".join(str(on.pk) for on in workers), "reason": reason}


def draining() -> set[uuid.UUID]:
    return set(drains.asked(Worker.objects.values_list("pk", flat=True)))


# ---- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["starting", "deaf", "wedged", "draining"])
def test_a_worker_is_listed_with_its_state_machine_room_and_memory(amy: Client, state: str) -> None:
    letters.worker()
    Worker.objects.update(state=state, host="box7", free=1, rss=300 * 2**20, refused=2)
    page = body(amy.get(WORKERS))
    for part in (f'dlq-badge dlq-{state}">{state}<', "box7", "1 of 2 free", "300.0\xa0MB", "2 refused"):
        assert part in page


def test_a_workers_name_is_not_masked_as_if_it_were_an_address(amy: Client) -> None:
    on = letters.worker("sms1@box7.example.com")
    page = body(amy.get(detail(on)))
    assert "<title>sms1@box7.example.com" in page
    assert "••" not in page


def test_a_workers_page_shows_its_verdict_and_what_it_had_aboard(amy: Client) -> None:
    on = letters.worker()
    Worker.objects.update(
        state="gone", ended_at=timezone.now(), host="box7", suspects=1, verdict="stalled: no beat for 15.2 s"
    )
    page = body(amy.get(detail(on)))
    for part in ("box7", "stalled: no beat for 15.2 s", "Suspects aboard when it was given up", "dlq-gone"):
        assert part in page
    assert "turn/" not in page


def test_a_suspects_page_says_how_often_it_was_aboard(admin_client: Client) -> None:
    job = letters.accept()
    page = f"/admin/celeriac/job/{job.pk}/change/"
    assert "Suspicion" not in body(admin_client.get(page))
    Live.objects.update(suspicion=2)
    assert "aboard 2 lost workers" in body(admin_client.get(page))


# ---- draining --------------------------------------------------------------------------------------------------------


def test_a_worker_is_drained_after_a_confirmation_with_a_reason_and_resumed_alike(amy: Client) -> None:
    on = letters.worker()
    letters.claim(letters.accept(), on)
    assert f"turn/drain/?worker={on.pk}" in body(amy.get(detail(on)))

    page = amy.get(f"{DRAIN}?worker={on.pk}")
    assert "1 job runs there" in body(page)
    assert not Control.objects.exists()
    response = amy.post(
        DRAIN, {"workers": page.context["form"]["workers"].value(), "reason": "new kernel"}, follow=True
    )

    assert response.redirect_chain == [(detail(on), 302)]
    assert said(response) == ["Told to drain: 1."]
    assert "Told to drain by amy" in body(response)
    assert "new kernel" in body(response)
    row = Control.objects.get()
    assert (row.key, row.value, row.version, row.actor, row.reason) == (
        f"drain:worker:{on.pk}", True, 1, "amy", "new kernel",
    )  # fmt: skip
    assert f"turn/resume/?worker={on.pk}" in body(response)

    assert said(amy.post(RESUME, confirmed(on), follow=True)) == ["Told to go on: 1."]
    assert draining() == set()
    assert Control.objects.get().version == 2


def test_selected_workers_are_drained_together_and_those_that_ended_are_left_out(amy: Client) -> None:
    first, second, ended = letters.worker(), letters.worker("mail1@host"), letters.worker("old@host")
    Worker.objects.filter(pk=ended.pk).update(ended_at=timezone.now())
    chosen = [str(on.pk) for on in (first, second, ended)]

    page = amy.post(f"{WORKERS}?state=all", {"action": "drain", "_selected_action": chosen, "index": "0"})
    assert "2 workers" in body(page)
    assert not Control.objects.exists()
    response = amy.post(DRAIN, {"workers": page.context["form"]["workers"].value(), "reason": "x"}, follow=True)
    assert said(response) == ["Told to drain: 2."]
    assert draining() == {first.pk, second.pk}

    response = amy.post(DRAIN, confirmed(first, ended), follow=True)
    assert said(response) == ["Told to drain: 1.", "1 worker had ended meanwhile and was left out."]
    assert draining() == {first.pk, second.pk}


def test_nobody_drains_without_the_permission(client: Client) -> None:
    on = letters.worker()
    client.force_login(staff("bob", "view_worker", "view_control", "switch_consumption"))
    page = body(client.get(detail(on)))
    assert "turn/" not in page
    assert 'value="drain"' not in body(client.get(WORKERS))
    client.post(WORKERS, {"action": "drain", "_selected_action": [str(on.pk)], "index": "0"})
    for address in (DRAIN, RESUME):
        assert client.get(f"{address}?worker={on.pk}").status_code == 403
        assert client.post(address, confirmed(on)).status_code == 403
    client.force_login(staff("eve", "drain_worker"))
    assert client.post(DRAIN, confirmed(on)).status_code == 403  # may not even see it
    client.logout()
    assert client.post(DRAIN, confirmed(on)).status_code == 302
    assert not Control.objects.exists()


def test_a_forged_post_drains_nobody() -> None:
    on = letters.worker()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(staff("amy", "view_worker", "drain_worker"))
    assert strict.post(DRAIN, confirmed(on)).status_code == 403
    assert not Control.objects.exists()


def test_a_get_or_a_post_without_a_reason_drains_nobody(amy: Client) -> None:
    on = letters.worker()
    assert amy.get(DRAIN, confirmed(on)).status_code == 404
    assert amy.get(f"{DRAIN}?worker={on.pk}&reason=x").status_code == 200
    assert "errorlist" in body(amy.post(DRAIN, confirmed(on, reason=" ")))
    assert amy.put(DRAIN).status_code == 405
    assert amy.get(f"{WORKERS}turn/kill/?worker={on.pk}").status_code == 404
    assert not Control.objects.exists()


@pytest.mark.parametrize("garbage", ["", "x", ",", "1,2", "\x00"])
def test_a_selection_that_cannot_be_read_drains_nobody(amy: Client, garbage: str) -> None:
    letters.worker()
    response = amy.post(DRAIN, {"workers": garbage, "reason": "because"}, follow=True)
    assert response.status_code == 200
    assert len(said(response)) >= 1
    assert amy.get(DRAIN, {"worker": garbage}).status_code == 404
    assert not Control.objects.exists()


def test_a_worker_that_has_ended_is_not_drained(amy: Client) -> None:
    on = letters.worker()
    Worker.objects.update(ended_at=timezone.now())
    for response in (amy.get(f"{DRAIN}?worker={on.pk}", follow=True), amy.post(DRAIN, confirmed(on), follow=True)):
        assert response.status_code == 200
        assert len(said(response)) == 1
    assert not Control.objects.exists()


def test_more_workers_than_may_be_drained_at_once_are_refused(amy: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "MOST_WORKERS", 1)
    monkeypatch.setattr("dlq_admin.drain.MOST_WORKERS", 1)
    chosen = [letters.worker(), letters.worker("mail1@host")]
    action = {"action": "drain", "_selected_action": [str(on.pk) for on in chosen], "index": "0"}
    for response in (amy.post(WORKERS, action, follow=True), amy.post(DRAIN, confirmed(*chosen), follow=True)):
        assert said(response) == ["At most 1 workers at once."]
    assert not Control.objects.exists()


def test_drains_are_shown_among_the_switches(admin_client: Client) -> None:
    on = letters.worker()
    drains.begin(on.pk, actor="amy", reason="new kernel")
    page = body(admin_client.get("/admin/celeriac/control/"))
    assert f"drain:worker:{on.pk}" in page
    assert ">drain<" in page
    drains.end(on.pk, actor="amy", reason="done")
    assert ">resumed<" in body(admin_client.get("/admin/celeriac/control/"))
