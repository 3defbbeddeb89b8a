"""The shop's jobs do real work, and doing it twice does no harm."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from tasks.jobs import data_sync, email_notify, fulfil_order, points_accrual, sms_notify
from tasks.jobs.fulfil_order import OutOfStock, book_parcel, reserve_stock, send_dispatch_notice
from tasks.jobs.points_accrual import CardUnknown
from tasks.models import (
    Batch,
    Customer,
    Effect,
    Notice,
    Order,
    PointsEntry,
    Product,
    Reservation,
    Shipment,
    SyncedRecord,
)
from tests.support.shop import Running, running

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running]]:
    store = tmp_path_factory.mktemp("mail") / "mail.jsonl"
    with (
        running("tasks.demo.simulator", "--port", "0") as simulator,
        running("tasks.demo.smtp", "--port", "0", "--store", str(store)) as smtp,
    ):
        yield simulator, smtp


@pytest.fixture
def simulator(servers: tuple[Running, Running], settings: Any) -> Running:
    simulator, smtp = servers
    settings.SHOP_THIRD_PARTY_URL = simulator.url
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", smtp.port
    return simulator


@pytest.fixture
def order() -> Order:
    return Order.objects.create(
        number=f"order-{uuid4().hex[:8]}",
        batch=Batch.objects.create(seed=1, orders=1),
        customer=Customer.objects.create(
            name="customer-7",
            email="customer-7@mail.example",
            phone="+12025550107",
            loyalty_card="4000000000000007",
        ),
        product=Product.objects.create(sku="product-1", price=Decimal("9.50"), stock=10),
        quantity=3,
    )


def twice(job: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """Run *job* to its end twice under one id, as after a lost acknowledgement."""
    job_id = str(uuid4())
    results = [job.apply(args, kwargs, task_id=job_id).get() for _ in range(2)]
    assert Effect.objects.get(job_id=job_id, kind=job.__name__).acted == 2
    return results


def test_an_order_is_fulfilled_once_however_often_its_job_runs(simulator: Running, order: Order) -> None:
    first, second = twice(fulfil_order, order.pk)

    order.refresh_from_db()
    assert first == second == Shipment.objects.get(order=order).tracking_number
    assert order.status == Order.Status.FULFILLED
    assert Product.objects.get(pk=order.product_id).stock == 7
    assert simulator.calls("logistics")["requests"][order.number] == {"calls": 1, "acted": 1}
    assert Notice.objects.filter(order=order, channel=Notice.Channel.DISPATCH).count() == 1


def test_each_step_of_an_order_can_be_repeated_alone_and_never_moves_it_back(simulator: Running, order: Order) -> None:
    for _ in range(2):
        reserve_stock(order)
    for _ in range(2):
        shipment = book_parcel(order)
    send_dispatch_notice(order, shipment)
    reserve_stock(order)
    book_parcel(order)

    order.refresh_from_db()
    assert order.status == Order.Status.FULFILLED
    assert Product.objects.get(pk=order.product_id).stock == 7


def test_an_order_beyond_the_stock_sets_nothing_aside(order: Order) -> None:
    Product.objects.filter(pk=order.product_id).update(stock=2)

    with pytest.raises(OutOfStock):
        reserve_stock(order)

    order.refresh_from_db()
    assert order.status == Order.Status.PLACED
    assert not Reservation.objects.exists()
    assert Product.objects.get(pk=order.product_id).stock == 2


def test_an_order_whose_stock_arrives_later_goes_on(order: Order) -> None:
    Product.objects.filter(pk=order.product_id).update(stock=0)
    with pytest.raises(OutOfStock):
        reserve_stock(order)
    Product.objects.filter(pk=order.product_id).update(stock=3)

    reserve_stock(order)

    assert Product.objects.get(pk=order.product_id).stock == 0


def test_points_are_credited_once(order: Order) -> None:
    assert twice(points_accrual, order.pk, card="4000000000000007") == [28, 28]

    assert Customer.objects.get(pk=order.customer_id).points == 28
    assert PointsEntry.objects.count() == 1


def test_points_for_somebody_elses_card_are_not_credited(order: Order) -> None:
    with pytest.raises(CardUnknown):
        points_accrual.apply((order.pk,), {"card": "4000000000000008"}).get()

    assert not PointsEntry.objects.exists()
    assert not Effect.objects.exists()


def test_an_sms_is_delivered_once_however_often_its_job_runs(simulator: Running, order: Order) -> None:
    first, second = twice(sms_notify, order.pk, phone="+12025550107")

    assert first == second == Notice.objects.get(order=order, channel=Notice.Channel.SMS).reference


def test_a_mail_sent_twice_carries_one_message_id(simulator: Running, order: Order) -> None:
    first, second = twice(email_notify, order.pk, "customer-7@mail.example")

    assert first == second == Notice.objects.get(order=order, channel=Notice.Channel.EMAIL).reference


def test_a_partners_record_is_copied(simulator: Running) -> None:
    assert twice(data_sync, "order-7", token="tok") == [1, 1]

    assert SyncedRecord.objects.get(external_id="order-7").body["name"] == "order-7"


def test_an_answer_that_was_overtaken_does_not_replace_a_newer_version() -> None:
    SyncedRecord.keep("r", version=2, body={"v": 2})

    assert SyncedRecord.keep("r", version=1, body={"v": 1}) == 2
    assert SyncedRecord.keep("r", version=3, body={"v": 3}) == 3
    assert SyncedRecord.objects.get(external_id="r").body == {"v": 3}
