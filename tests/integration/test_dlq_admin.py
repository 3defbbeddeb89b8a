"""The desk's pages: who sees what, and what a click does to a dead letter."""

from __future__ import annotations

import html
import json
import re
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from celeriac.guard import switches
from celeriac.models import DeadLetter, History, Job, Live, TriageDecision
from celeriac.states import Status
from celeriac.triage import letters as triage
from celeriac.triage.letters import Decider
from tests.support import letters
from tests.support.people import VIEW, staff

pytestmark = pytest.mark.django_db

LIST = "admin:celeriac_deadletter_changelist"
REDELIVER, IGNORE, EDIT, PAYLOAD = (
    "redeliver_deadletter",
    "ignore_deadletter",
    "edit_deadletter_payload",
    "view_payload",
)
ALL = (*VIEW, REDELIVER, IGNORE, EDIT, PAYLOAD)


@pytest.fixture
def letter() -> DeadLetter:
    return letters.dead_letter(args=[42], kwargs={"text": "hello"})


def address(letter: DeadLetter, page: str = "change", *args: str) -> str:
    return reverse(f"admin:celeriac_deadletter_{page}", args=[letter.pk, *args])


def signed_in(*codenames: str, strict: bool = False, **fields: Any) -> Client:
    client = Client(enforce_csrf_checks=strict)
    client.force_login(staff(f"amy{uuid.uuid4().hex[:6]}", *codenames, **fields))
    return client


def body(response: Any) -> str:
    return html.unescape(response.content.decode())


def said(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def nothing_happened(letter: DeadLetter) -> bool:
    """Whether the letter and its job are as they were."""
    row = DeadLetter.objects.get(pk=letter.pk)
    job = Job.objects.get(pk=letter.job_id)
    return (
        (row.state, row.version) == ("open", letter.version)
        and job.status is Status.DEAD_LETTER
        and job.payload == letter.job.payload
        and not TriageDecision.objects.filter(dead_letter=letter).exists()
        and not Live.objects.filter(job=job).exists()
    )


def forms(letter: DeadLetter) -> dict[str, dict[str, str]]:
    """Every address that can move this letter, with a body that would, given the permission."""
    asked = {"version": str(letter.version), "reason": "because"}
    edited = {**asked, "step": "confirm", "args": "[43]", "kwargs": "{}"}
    several = {"letters": f"{letter.pk}:{letter.version}", "reason": "because"}
    selected = {"_selected_action": str(letter.pk), "index": "0"}
    return {
        address(letter, "decide", "run-again"): asked,
        address(letter, "decide", "ignore"): asked,
        address(letter, "edit"): edited,
        reverse("admin:celeriac_deadletter_many", args=["run-again"]): several,
        reverse("admin:celeriac_deadletter_many", args=["ignore"]): several,
        reverse(LIST): {**selected, "action": "run_again"},
        address(letter): {**asked, "state": "ignored"},
        reverse("admin:celeriac_deadletter_delete", args=[letter.pk]): {"post": "yes"},
    }


# ---- who may ---------------------------------------------------------------------------------------------------------


def test_a_stranger_is_sent_to_the_log_in_page_and_changes_nothing(letter: DeadLetter) -> None:
    for page, fields in forms(letter).items():
        for response in (Client().get(page), Client().post(page, fields)):
            assert response.status_code == 302, page
            assert response["Location"].startswith("/admin/login/"), page
    assert nothing_happened(letter)


@pytest.mark.parametrize("codenames", [(), (REDELIVER, IGNORE, EDIT, PAYLOAD)], ids=["nothing", "all but viewing"])
def test_staff_who_may_not_view_letters_are_refused_everywhere(letter: DeadLetter, codenames: tuple[str, ...]) -> None:
    client = signed_in(*codenames)
    for page, fields in forms(letter).items():
        assert client.get(page).status_code in (403, 405), page
        assert client.post(page, fields).status_code == 403, page
    assert client.post(address(letter, "payload")).status_code == 403
    assert nothing_happened(letter)


def test_who_may_only_view_sees_no_button_and_is_refused(letter: DeadLetter) -> None:
    client = signed_in(*VIEW)
    page = body(client.get(address(letter)))
    assert "it broke" in page
    assert "/decide/" not in page
    assert "/edit/" not in page
    assert "/payload/" not in page
    assert 'name="action"' not in body(client.get(reverse(LIST)))

    for target, fields in forms(letter).items():
        if target != reverse(LIST):
            assert client.post(target, fields).status_code == 403, target
    assert client.post(address(letter, "payload")).status_code == 403
    client.post(reverse(LIST), forms(letter)[reverse(LIST)])
    assert nothing_happened(letter)


@pytest.mark.parametrize(
    ("codenames", "opened"),
    [
        ((REDELIVER,), {"run-again"}),
        ((IGNORE,), {"ignore"}),
        ((EDIT,), set()),
        ((PAYLOAD,), set()),
        ((EDIT, PAYLOAD), {"edit"}),
        ((REDELIVER, IGNORE, EDIT, PAYLOAD), {"run-again", "ignore", "edit"}),
    ],
)
def test_each_way_out_wants_its_own_permission(codenames: tuple[str, ...], opened: set[str]) -> None:
    client = signed_in(*VIEW, *codenames)
    for way in ("run-again", "ignore", "edit"):
        letter = letters.dead_letter(args=[42])
        page = address(letter, "edit") if way == "edit" else address(letter, "decide", way)
        assert (page in body(client.get(address(letter)))) is (way in opened)
        assert client.get(page).status_code == (200 if way in opened else 403)
        assert client.post(page, forms(letter)[page]).status_code == (302 if way in opened else 403)
        assert nothing_happened(letter) is (way not in opened)


def test_nobody_adds_edits_or_deletes_letters(letter: DeadLetter, admin_client: Client) -> None:
    assert admin_client.get(reverse("admin:celeriac_deadletter_add")).status_code == 403
    assert admin_client.post(address(letter), {"state": "resolved"}).status_code == 403
    assert (
        admin_client.post(reverse("admin:celeriac_deadletter_delete", args=[letter.pk]), {"post": "yes"}).status_code
        == 403
    )
    assert 'value="delete_selected"' not in body(admin_client.get(reverse(LIST)))
    assert nothing_happened(letter)


def test_no_get_changes_anything(letter: DeadLetter, admin_client: Client) -> None:
    for page, fields in forms(letter).items():
        admin_client.get(page, fields)
        admin_client.head(page)
    assert admin_client.get(address(letter, "payload")).status_code == 405
    assert nothing_happened(letter)


def test_a_post_without_the_csrf_token_changes_nothing(letter: DeadLetter) -> None:
    client = signed_in(*ALL, strict=True)
    for page, fields in forms(letter).items():
        assert client.post(page, fields).status_code == 403, page
    assert client.post(address(letter, "payload")).status_code == 403
    assert nothing_happened(letter)


# ---- the ways out ----------------------------------------------------------------------------------------------------


def test_run_again_gives_the_job_one_new_life_and_says_who_and_why(letter: DeadLetter) -> None:
    client = signed_in(*VIEW, REDELIVER)
    page = address(letter, "decide", "run-again")
    assert 'name="reason"' in body(client.get(page))

    response = client.post(page, forms(letter)[page], follow=True)

    assert said(response) == ["Sent back: the job is in its queue again."]
    decision = TriageDecision.objects.get()
    assert (decision.action, decision.reason, decision.user) == ("run_again", "because", User.objects.get())
    assert Job.objects.get(pk=letter.job_id).status is Status.PENDING
    assert Live.objects.get().fence > letter.fence
    assert "because" in body(response)


def test_ignore_ends_the_job_with_the_reason(letter: DeadLetter) -> None:
    page = address(letter, "decide", "ignore")

    response = signed_in(*VIEW, IGNORE).post(page, forms(letter)[page], follow=True)

    assert said(response) == ["Ignored: the job has ended as CANCELLED."]
    assert Job.objects.get(pk=letter.job_id).status is Status.CANCELLED
    assert DeadLetter.objects.get().state == DeadLetter.State.IGNORED
    assert History.objects.get(event="ignored").reason == "because"


@pytest.mark.parametrize("reason", ["", "   ", "\x00"])
@pytest.mark.parametrize("way", ["run-again", "ignore", "edit"])
def test_nothing_moves_without_a_reason(letter: DeadLetter, admin_client: Client, way: str, reason: str) -> None:
    page = address(letter, "edit") if way == "edit" else address(letter, "decide", way)
    response = admin_client.post(page, {**forms(letter)[page], "reason": reason})
    assert response.status_code == 200
    assert "errorlist" in body(response)
    assert nothing_happened(letter)


@pytest.mark.parametrize("way", ["run-again", "ignore", "edit"])
def test_a_form_sent_twice_counts_once(letter: DeadLetter, admin_client: Client, way: str) -> None:
    page = address(letter, "edit") if way == "edit" else address(letter, "decide", way)
    admin_client.post(page, forms(letter)[page], follow=True)
    fence = Live.objects.filter(job=letter.job_id).values_list("fence", flat=True).first()

    response = admin_client.post(page, forms(letter)[page], follow=True)

    assert said(response)[-1].startswith("This dead letter has moved")
    assert TriageDecision.objects.count() == 1
    assert Live.objects.filter(job=letter.job_id).values_list("fence", flat=True).first() == fence


@pytest.mark.django_db(transaction=True)
def test_of_people_who_confirm_at_the_same_moment_one_is_first(letter: DeadLetter) -> None:
    people = [signed_in(*ALL) for _ in range(4)]
    pages = [address(letter, "decide", "run-again"), address(letter, "decide", "ignore"), address(letter, "edit")]
    ready = threading.Barrier(len(people))

    def confirm(number: int) -> int:
        page = pages[number % len(pages)]
        try:
            ready.wait()
            return people[number].post(page, forms(letter)[page]).status_code
        finally:
            connection.close()  # this thread's own

    with ThreadPoolExecutor(len(people)) as pool:
        assert list(pool.map(confirm, range(len(people)))) == [302] * len(people)
    assert TriageDecision.objects.count() == 1
    assert History.objects.filter(event__in=["redelivered", "ignored"]).count() == 1


@pytest.mark.parametrize("way", ["run-again", "ignore", "edit"])
def test_a_letter_seen_in_an_older_version_is_refused(letter: DeadLetter, admin_client: Client, way: str) -> None:
    page = address(letter, "edit") if way == "edit" else address(letter, "decide", way)
    DeadLetter.objects.filter(pk=letter.pk).update(version=7)

    response = admin_client.post(page, forms(letter)[page], follow=True)

    assert said(response)[0].startswith("This dead letter has moved")
    letter.version = 7
    assert nothing_happened(letter)


def test_a_letter_whose_job_moved_on_is_refused_and_nothing_is_written(
    letter: DeadLetter, admin_client: Client
) -> None:
    Job.objects.filter(pk=letter.job_id).update(fence=99)
    page = address(letter, "decide", "run-again")

    response = admin_client.post(page, forms(letter)[page], follow=True)

    assert said(response)[0].startswith("This dead letter has moved")
    assert nothing_happened(letter)


def test_a_letter_of_an_earlier_stay_does_not_move_the_job_again(letter: DeadLetter, admin_client: Client) -> None:
    triage.run_again(DeadLetter.objects.get(pk=letter.pk), Decider("bob"), "first")
    second = letters.dead_letter(letter.job)
    page = address(letter, "decide", "ignore")

    response = admin_client.post(page, forms(letter)[page], follow=True)

    assert said(response)[0].startswith("This dead letter has moved")
    second.job.refresh_from_db()
    assert nothing_happened(second)
    assert address(second) in body(admin_client.get(address(letter)))


def test_a_switched_off_queue_is_mentioned_before_a_job_is_sent_there(letter: DeadLetter, admin_client: Client) -> None:
    switches.turn("queue", letters.QUEUE, on=False, actor="bob", reason="maintenance")
    assert "switched off (queue sms)" in body(admin_client.get(address(letter, "decide", "run-again")))
    assert "switched off" not in body(admin_client.get(address(letter, "decide", "ignore")))


# ---- editing ---------------------------------------------------------------------------------------------------------


def test_editing_changes_the_arguments_and_nothing_else(admin_client: Client) -> None:
    stored = {
        "args": [42, {"__type__": "datetime", "__value__": "2026-01-01T00:00:00+00:00"}],
        "kwargs": {"text": "hello"},
        "chain": [{"task": "next"}],
        "headers": {"mine": "kept"},
    }
    letter = letters.dead_letter(payload=json.dumps(stored))
    page = address(letter, "edit")
    args = [43, stored["args"][1]]
    sent = {"version": "0", "args": json.dumps(args), "kwargs": '{"text": "hello"}'}

    preview = admin_client.post(page, {**sent, "step": "preview"})
    assert nothing_happened(letter)
    assert re.search(r'dlq-removed">- +42,', body(preview))
    assert re.search(r'dlq-added">\+ +43,', body(preview))
    response = admin_client.post(page, {**sent, "step": "confirm", "reason": "typo"}, follow=True)

    assert said(response) == ["Sent back with other arguments: the job is in its queue again."]
    assert json.loads(Job.objects.get(pk=letter.job_id).payload) == {**stored, "args": args}
    decision = TriageDecision.objects.get()
    assert (decision.action, decision.change) == ("edit", "changed: args")


def test_the_form_is_filled_with_what_is_stored_to_the_last_character(admin_client: Client) -> None:
    args = ["\x00", "\ud800", "中文", "\n", "</textarea><script>", 10**30, 0.1, None]
    letter = letters.dead_letter(args=args)
    page = address(letter, "edit")

    form = admin_client.get(page).context["form"]
    sent = {"version": "0", "args": form["args"].value(), "kwargs": '{"new": 1}'}
    browser_like = {name: text.replace("\n", "\r\n") for name, text in sent.items()}
    admin_client.post(page, {**browser_like, "step": "confirm", "reason": "added"})

    assert json.loads(Job.objects.get(pk=letter.job_id).payload) == {"args": args, "kwargs": {"new": 1}}


@pytest.mark.parametrize(
    ("args", "kwargs", "complaint"),
    [
        ("[42", "{}", "no JSON"),
        ('{"a": 1}', "{}", "a JSON list"),
        ("[]", "[]", "a JSON object"),
        ("[" * 100_000, "{}", "nested too deeply"),
        ("[]", '{"a": 1, "a": 2}', "“a” is there twice"),
        ("", "{}", "required"),
        ("[42]", '{"text": "hello"}', "Nothing is changed"),
        (json.dumps(["x" * 1_100_000]), "{}", "more than CELERIAC"),
    ],
)
@pytest.mark.parametrize("step", ["preview", "confirm"])
def test_arguments_that_cannot_be_used_are_explained(
    letter: DeadLetter, admin_client: Client, args: str, kwargs: str, complaint: str, step: str
) -> None:
    fields = {"version": "0", "args": args, "kwargs": kwargs, "step": step, "reason": "because"}
    response = admin_client.post(address(letter, "edit"), fields)
    if step == "confirm" or "more than" not in complaint:
        assert complaint in body(response)
    assert response.status_code == 200
    assert nothing_happened(letter)


def test_going_back_from_the_preview_keeps_what_was_entered(letter: DeadLetter, admin_client: Client) -> None:
    fields = {"version": "0", "args": "[4321]", "kwargs": "{}", "step": "edit"}
    assert "[4321]" in body(admin_client.post(address(letter, "edit"), fields))
    assert nothing_happened(letter)


def test_arguments_that_cannot_be_read_are_shown_as_such_and_not_edited(admin_client: Client) -> None:
    letter = letters.dead_letter(payload="{broken")
    assert "can't be read" in body(admin_client.get(address(letter)))
    assert "can't be read" in body(admin_client.post(address(letter, "payload")))
    response = admin_client.get(address(letter, "edit"), follow=True)
    assert said(response)[0].startswith("The stored arguments can't be read")


# ---- secrets ---------------------------------------------------------------------------------------------------------

SECRETS = ("4111111111111111", "13812345678", "s3cr3t-token-value", "sk_live_abcdefghijklmnop", "someone@example.com")


@pytest.fixture
def secretive() -> DeadLetter:
    text = f"card {SECRETS[0]} of +86{SECRETS[1]}, token={SECRETS[2]}, {SECRETS[3]}, {SECRETS[4]}"
    failures = [letters.failure(message=text), letters.failure(message=text)]
    letter = letters.dead_letter(args=[text], kwargs={"token": SECRETS[2]}, failures=failures, biz_id=SECRETS[4])
    # As a person might write it.
    triage.run_again(DeadLetter.objects.get(pk=letter.pk), Decider("bob"), text)
    return letters.dead_letter(letter.job, failures=failures)


def test_secrets_are_masked_on_every_page(secretive: DeadLetter) -> None:
    client = signed_in(*VIEW, REDELIVER, IGNORE, "view_job")
    several = {"action": "ignore", "_selected_action": str(secretive.pk), "index": "0"}
    pages = [
        client.get(address(secretive)),
        client.get(reverse(LIST)),
        client.get(address(secretive, "decide", "ignore")),
        client.post(reverse(LIST), several),
        client.get(reverse("admin:celeriac_job_changelist")),
        client.get(reverse("admin:celeriac_job_change", args=[secretive.job_id])),
    ]
    for page in pages:
        assert page.status_code == 200
        assert not [secret for secret in SECRETS if secret in body(page)]
    assert body(pages[0]).count("••••") >= 5


def test_who_may_see_payloads_sees_them_after_asking(secretive: DeadLetter) -> None:
    client = signed_in(*VIEW, PAYLOAD)
    assert not [secret for secret in SECRETS if secret in body(client.get(address(secretive)))]
    shown = client.post(address(secretive, "payload"))
    assert all(secret in body(shown) for secret in SECRETS)
    assert "no-store" in shown["Cache-Control"]


@pytest.mark.parametrize(
    "lookup", ["payload__contains", "job__payload__contains", "message__regex", "args_repr__contains"]
)
@pytest.mark.parametrize("model", ["deadletter", "job"])
def test_a_list_cannot_be_asked_what_a_payload_contains(secretive: DeadLetter, lookup: str, model: str) -> None:
    client = signed_in(*VIEW, "view_job")
    assert client.get(reverse(f"admin:celeriac_{model}_changelist"), {lookup: SECRETS[0]}).status_code == 400


# ---- pages -----------------------------------------------------------------------------------------------------------


def test_a_letters_page_tells_error_arguments_attempts_story_and_decisions(settings: Settings) -> None:
    settings.CELERIAC = {**settings.CELERIAC, "FLOWER_URL": "http://flower.example/"}
    codes = ("SHOP_GATEWAY_503", "SHOP_LIMIT_429", "SHOP_REFUSED_400")
    letter = letters.dead_letter(failures=[letters.failure(code) for code in codes], args=["hello"], biz_id="order-42")

    page = body(signed_in(*VIEW, "view_job").get(address(letter)))

    failures = page[page.index('id="failures"') :]
    assert [failures.index(code) for code in codes] == sorted(failures.index(code) for code in codes)
    assert "order-42" in page
    assert '"hello"' in page
    assert "Traceback" in page
    assert "put into the dead letters" in page
    assert f'href="http://flower.example/task/{letter.job.task_id}"' in page
    assert reverse("admin:celeriac_job_change", args=[letter.job_id]) in page


def test_without_flower_there_is_no_link_to_it(letter: DeadLetter, admin_client: Client) -> None:
    assert "Flower" not in body(admin_client.get(address(letter)))


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps({"args": ["\x00", "\ud800", "\x1b[31m"], "kwargs": {"\udfff": "\x00"}}),
        json.dumps({"args": [1.0], "kwargs": {}}).replace("1.0", "NaN"),
        '{"args": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"args": ' + "[" * 500 + "]" * 500 + "}",
        json.dumps({"args": ["x" * 200_000]}),
        "[]",
        "",
    ],
    ids=["NUL and surrogates", "NaN", "too deep", "deep", "large", "a list", "empty"],
)
def test_a_page_comes_up_whatever_the_payload_holds(admin_client: Client, payload: str) -> None:
    job = letters.accept(args=[1])
    Job.objects.filter(pk=job.pk).update(payload=payload)
    letter = letters.dead_letter(Job.objects.get(pk=job.pk))
    for page in (address(letter), address(letter, "edit"), reverse("admin:celeriac_job_change", args=[job.pk])):
        assert admin_client.get(page, follow=True).status_code == 200
    assert admin_client.post(address(letter, "payload")).status_code == 200


def test_an_error_text_of_another_script_and_markup_is_shown_as_text(admin_client: Client) -> None:
    letter = letters.dead_letter(failures=[letters.failure(message="<script>alert(1)</script> 余额不足 \x00\ud800")])
    page = admin_client.get(address(letter)).content.decode()
    assert "<script>alert(1)" not in page
    assert "余额不足 \\x00\\ud800" in page


def test_what_is_not_there_is_not_found(admin_client: Client) -> None:
    for key in ("999999", "9" * 30, "x", "%00"):
        assert admin_client.get(f"/admin/celeriac/deadletter/{key}/change/").status_code == 404
        assert admin_client.get(f"/admin/celeriac/deadletter/{key}/edit/").status_code == 404
        assert admin_client.get(f"/admin/celeriac/control/{key}/change/").status_code == 404
    assert admin_client.get("/admin/celeriac/deadletter/1/decide/explode/").status_code == 404


def test_the_desk_speaks_chinese(letter: DeadLetter, admin_client: Client) -> None:
    pages = {
        reverse("admin:index"): ["死信", "作业", "工作进程"],
        reverse(LIST): ["死信", "错误代码", "未处理"],
        address(letter): ["编辑参数并送回", "原样重新运行", "注明理由后忽略", "时间线", "失败的尝试", "放入死信"],
        address(letter, "edit"): ["预览", "位置参数"],
        address(letter, "decide", "ignore"): ["理由", "确认：注明理由后忽略"],
    }
    for page, words in pages.items():
        shown = body(admin_client.get(page, headers={"accept-language": "zh-CN"}))
        assert not [word for word in words if word not in shown], page
