"""The desk's lists: what they find, what they cost, and what can be done to several letters at once."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from celeriac import ids
from celeriac.guard import switches
from celeriac.models import DeadLetter, Job, Live, Quarantined, TriageDecision
from celeriac.states import Status
from celeriac.triage import letters as triage
from celeriac.triage.letters import Decider
from dlq_admin import forms, jobs, paging
from tests.support import letters
from tests.support.people import VIEW, staff

pytestmark = pytest.mark.django_db

LETTERS = "/admin/celeriac/deadletter/"
JOBS = "/admin/celeriac/job/"


def listed(client: Client, page: str, **query: str) -> list[int]:
    response = client.get(page, query)
    assert response.status_code == 200
    return [row.pk for row in response.context["cl"].result_list]


def said(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def selection(way: str, *chosen: DeadLetter) -> dict[str, Any]:
    return {"action": way, "_selected_action": [str(letter.pk) for letter in chosen], "index": "0"}


def confirmed(*chosen: DeadLetter, reason: str = "outage is over") -> dict[str, str]:
    return {"letters": ",".join(f"{letter.pk}:{letter.version}" for letter in chosen), "reason": reason}


MANY = {way: f"{LETTERS}many/{way}/" for way in ("run-again", "ignore")}

# ---- finding ---------------------------------------------------------------------------------------------------------


def test_the_list_begins_with_open_letters_and_shows_others_when_asked(admin_client: Client) -> None:
    first, second = letters.dead_letter(), letters.dead_letter()
    triage.ignore(first, Decider("bob"), "known")

    assert listed(admin_client, LETTERS) == [second.pk]
    assert listed(admin_client, LETTERS, state="ignored") == [first.pk]
    assert listed(admin_client, LETTERS, state="all") == [second.pk, first.pk]
    assert listed(admin_client, LETTERS, state="nonsense") == [second.pk]


def test_letters_are_filtered_by_type_code_queue_and_day(admin_client: Client) -> None:
    sms = letters.dead_letter(failures=[letters.failure("SHOP_GATEWAY_503")])
    mail = letters.dead_letter(
        task_type="shop.mail", queue="email", on=letters.worker("email1@host", ["email"], ["shop.mail"])
    )

    assert listed(admin_client, LETTERS, task_type="shop.mail") == [mail.pk]
    assert listed(admin_client, LETTERS, error_code="SHOP_GATEWAY_503") == [sms.pk]
    assert listed(admin_client, LETTERS, queue="email") == [mail.pk]
    assert listed(admin_client, LETTERS, queue="e\x00mail") == [mail.pk, sms.pk]
    assert listed(admin_client, LETTERS, opened_at__gte="2100-01-01 00:00:00+00:00") == []
    choices = admin_client.get(LETTERS).content.decode()
    assert "?task_type=shop.mail" in choices
    assert "?error_code=SHOP_GATEWAY_503" in choices


def test_letters_are_found_by_ids_of_their_job_and_by_their_error(admin_client: Client) -> None:
    wanted = letters.dead_letter(
        biz_id="order-42", failures=[letters.failure(message="gateway said no", kind="shop.errors.Refused")]
    )
    letters.dead_letter()
    alias = letters.dead_letter(task_id=ids.to_uuid("own-id")[0], alias="own-id")

    for text in (str(wanted.job.task_id), f" {wanted.job.task_id} ", "order-42", "SAID NO", "errors.Refused"):
        assert listed(admin_client, LETTERS, q=text) == [wanted.pk], text
    assert listed(admin_client, LETTERS, q="own-id") == [alias.pk]
    assert listed(admin_client, LETTERS, q="%") == []


def test_a_list_asks_a_fixed_number_of_questions(
    admin_client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        letters.dead_letter()
    # Session, user; rows counted to the limit, rows; three filters' choices.
    with django_assert_num_queries(7):
        admin_client.get(LETTERS)
    with django_assert_num_queries(5):
        admin_client.get(JOBS)


def test_a_list_counts_no_further_than_it_pages(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MOST", 2)
    for _ in range(3):
        letters.dead_letter()

    response = admin_client.get(LETTERS)

    assert response.context["cl"].result_count == 2
    assert "Only the first 2" in response.content.decode()


def test_jobs_are_paged_by_seq_with_the_filters_kept(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs.JobAdmin, "list_per_page", 2)
    accepted = [letters.accept().pk for _ in range(5)][::-1]

    pages, address = [], f"{JOBS}?status=PENDING"
    while address:
        response = admin_client.get(address)
        pages.append([row.pk for row in response.context["cl"].result_list])
        older = response.context["cl"].older
        address = f"{JOBS}{older}" if older else ""
        assert not older or "status=PENDING" in older

    assert pages == [accepted[:2], accepted[2:4], accepted[4:]]
    assert response.context["cl"].newest == "?status=PENDING"
    assert admin_client.get(JOBS, {"seq__lt": "x"}).status_code == 302


def test_jobs_are_filtered_by_status_and_found_by_id(admin_client: Client) -> None:
    dead, waiting = letters.dead_letter().job, letters.accept(biz_id="order-1")

    assert listed(admin_client, JOBS, status="PENDING") == [waiting.pk]
    assert listed(admin_client, JOBS, status="DEAD_LETTER") == [dead.pk]
    assert listed(admin_client, JOBS, q=str(dead.task_id)) == [dead.pk]
    assert listed(admin_client, JOBS, q="order-1") == [waiting.pk]


# ---- several at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("way", "codename"), [("run_again", "redeliver_deadletter"), ("ignore", "ignore_deadletter")])
def test_selected_letters_are_moved_after_a_confirmation(client: Client, way: str, codename: str) -> None:
    chosen = [letters.dead_letter() for _ in range(3)]
    client.force_login(staff("amy", *VIEW, codename))

    page = client.post(f"{LETTERS}?queue=sms", selection(way, *chosen))
    assert DeadLetter.objects.open().count() == 3
    assert "3 dead letters" in page.content.decode()
    assert f"{MANY[way.replace('_', '-')]}?queue=sms" in page.content.decode()
    sent = {**confirmed(*chosen), "letters": page.context["form"]["letters"].value()}
    response = client.post(f"{MANY[way.replace('_', '-')]}?queue=sms", sent, follow=True)

    assert said(response)[0].endswith(": 3.")
    assert response.redirect_chain == [(f"{LETTERS}?queue=sms", 302)]
    assert DeadLetter.objects.open().count() == 0
    assert set(TriageDecision.objects.values_list("action", "actor", "reason")) == {(way, "amy", "outage is over")}


def test_each_letter_is_on_its_own_and_those_that_moved_are_counted(admin_client: Client) -> None:
    chosen = [letters.dead_letter() for _ in range(4)]
    seen = confirmed(*chosen, DeadLetter(pk=10**9, version=0))
    triage.ignore(DeadLetter.objects.get(pk=chosen[0].pk), Decider("bob"), "first")
    Job.objects.filter(pk=chosen[1].job_id).update(fence=99)

    response = admin_client.post(MANY["run-again"], seen, follow=True)

    assert said(response) == ["Sent back: 2.", "3 letters had moved meanwhile and were left as they are."]
    assert set(Live.objects.values_list("job", flat=True)) == {chosen[2].job_id, chosen[3].job_id}
    assert TriageDecision.objects.filter(actor="bob").count() == 1
    assert TriageDecision.objects.count() == 3


def test_a_confirmation_sent_twice_gives_each_job_one_new_life(admin_client: Client) -> None:
    chosen = [letters.dead_letter() for _ in range(2)]
    for _ in range(2):
        response = admin_client.post(MANY["run-again"], confirmed(*chosen), follow=True)
    assert said(response) == ["2 letters had moved meanwhile and were left as they are."]
    assert TriageDecision.objects.count() == Live.objects.count() == 2


def test_several_are_not_moved_without_a_reason_or_the_permission(admin_client: Client, client: Client) -> None:
    chosen = [letters.dead_letter() for _ in range(2)]
    response = admin_client.post(MANY["ignore"], confirmed(*chosen, reason=" "))
    assert "errorlist" in response.content.decode()
    client.force_login(staff("amy", *VIEW, "redeliver_deadletter"))
    assert client.post(MANY["ignore"], confirmed(*chosen)).status_code == 403
    assert admin_client.get(MANY["ignore"]).status_code == 405
    assert DeadLetter.objects.open().count() == 2


@pytest.mark.parametrize("garbage", ["", "x", "1", "1:2:3", "1:x", ","])
def test_a_selection_that_cannot_be_read_moves_nothing(admin_client: Client, garbage: str) -> None:
    letters.dead_letter()
    response = admin_client.post(MANY["ignore"], {"letters": garbage, "reason": "because"}, follow=True)
    assert response.status_code == 200
    assert len(said(response)) == 1
    assert DeadLetter.objects.open().count() == 1


def test_more_than_the_most_at_once_are_refused(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [letters.dead_letter() for _ in range(3)]
    monkeypatch.setattr(forms, "MOST_AT_ONCE", 2)
    monkeypatch.setattr("dlq_admin.decide.MOST_AT_ONCE", 2)
    everything = {**selection("ignore", chosen[0]), "select_across": "1"}

    for response in (
        admin_client.post(LETTERS, everything, follow=True),
        admin_client.post(MANY["ignore"], confirmed(*chosen), follow=True),
    ):
        assert said(response)[0].startswith("At most 2 letters at once")
    assert DeadLetter.objects.open().count() == 3


def test_letters_that_are_no_longer_open_are_left_out_of_the_confirmation(admin_client: Client) -> None:
    closed, still_open = letters.dead_letter(), letters.dead_letter()
    triage.ignore(closed, Decider("bob"), "known")

    page = admin_client.post(f"{LETTERS}?state=all", selection("run_again", closed, still_open))
    assert page.context["form"]["letters"].value() == f"{still_open.pk}:0"
    assert "is no longer open and is left out" in html.unescape(page.content.decode())

    response = admin_client.post(f"{LETTERS}?state=all", selection("run_again", closed), follow=True)
    assert said(response) == ["None of the selected letters is open."]


# ---- the rest of the fleet -------------------------------------------------------------------------------------------


def test_jobs_workers_and_switches_are_shown_and_not_changed(admin_client: Client) -> None:
    on = letters.worker()
    job = letters.accept()
    letters.claim(job, on)
    switches.turn("type", "shop.mail", on=False, actor="amy", reason="maintenance")

    pages = {
        f"{JOBS}{job.pk}/change/": ["RUNNING", "Running on sms1@host"],
        f"/admin/celeriac/worker/{on.pk}/change/": ["sms1@host", "celeriac 0", letters.TYPE],
        "/admin/celeriac/worker/": ["sms1@host", "alive"],
        "/admin/celeriac/control/": ["consume:type:shop.mail", "off", "amy", "maintenance"],
        "/admin/celeriac/control/consume_3Atype_3Ashop.mail/change/": ["shop.mail", "maintenance"],
    }
    for page, words in pages.items():
        shown = admin_client.get(page).content.decode()
        assert not [word for word in words if word not in shown], page
        if page.endswith("/change/"):
            assert admin_client.post(page, {}).status_code == 403
            assert admin_client.post(page.replace("/change/", "/delete/"), {"post": "yes"}).status_code == 403
    assert Job.objects.get(pk=job.pk).status is Status.RUNNING


def test_a_worker_that_has_gone_is_listed_when_asked_for(admin_client: Client) -> None:
    on = letters.worker()
    type(on).objects.update(state="gone", ended_at=timezone.now())
    assert listed(admin_client, "/admin/celeriac/worker/") == []
    assert listed(admin_client, "/admin/celeriac/worker/", state="gone") == [on.pk]


def test_quarantined_messages_are_shown_in_part_and_deleted_with_the_permission(
    admin_client: Client, client: Client
) -> None:
    message = Quarantined.objects.create(
        at=timezone.now(), queue="celeriac.sms", reason="no JSON", body=b"secret \xff body", size=14, headers="{}"
    )
    page = reverse("admin:celeriac_quarantined_change", args=[message.pk])
    client.force_login(staff("amy", "view_quarantined"))

    assert "no JSON" in client.get("/admin/celeriac/quarantined/").content.decode()
    assert "secret" not in client.get(page).content.decode()
    assert "secret \\xff body" in admin_client.get(page).content.decode()
    delete = reverse("admin:celeriac_quarantined_delete", args=[message.pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    assert 'href="' + delete in admin_client.get(page).content.decode()
    assert admin_client.post(delete, {"post": "yes"}).status_code == 302
    assert not Quarantined.objects.exists()
