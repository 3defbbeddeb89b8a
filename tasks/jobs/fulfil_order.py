"""fulfil_order: inventory, then logistics, then a notice.

Each step may be run again: a natural key makes it do nothing.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db import transaction
from django.db.models import F

from celeriac import JobError, Policy
from tasks.jobs.pace import QUICK
from tasks.jobs.steering import steering
from tasks.models import Effect, Notice, Order, Product, Reservation, Shipment
from tasks.thirdparty import logistics, mail


class OutOfStock(JobError):
    """There is less of the product than was ordered."""

    code = "INVENTORY_SHORT_409"


@shared_task(bind=True, queue="fulfil", policy=Policy(max_retries=2, backoff=QUICK, timeout=60))
def fulfil_order(self: Any, order_id: int) -> str:
    """Take *order_id* from the shelf to the carrier and tell the customer; returns the tracking number."""
    order = Order.objects.select_related("customer", "product").get(pk=order_id)
    reserve_stock(order)
    with steering():
        shipment = book_parcel(order)
        send_dispatch_notice(order, shipment)
    Effect.count(self.request.id, "fulfil_order")
    return shipment.tracking_number


def reserve_stock(order: Order) -> Reservation:
    """Set the ordered quantity aside, once per order.

    Raises:
        OutOfStock: nothing was set aside.
    """
    with transaction.atomic():
        # The reservation first: its unique key makes a second execution wait here, before it could take stock
        # again.
        reservation, first = Reservation.objects.get_or_create(
            order=order, defaults={"product": order.product, "quantity": order.quantity}
        )
        if first:
            on_shelf = Product.objects.filter(pk=order.product_id, stock__gte=order.quantity)
            if not on_shelf.update(stock=F("stock") - order.quantity):
                raise OutOfStock(f"{order.number}: fewer than {order.quantity} of {order.product.sku}")
        order.advance(Order.Status.PLACED, Order.Status.RESERVED)
    return reservation


def book_parcel(order: Order) -> Shipment:
    """Book the parcel, once per order: the order's number is the carrier's idempotency key."""
    booked = Shipment.objects.filter(order=order).first()
    if booked is None:
        tracking_number = logistics.book(order.number, order.product.sku, order.quantity, request_id=order.number)
        booked, _ = Shipment.objects.get_or_create(order=order, defaults={"tracking_number": tracking_number})
    order.advance(Order.Status.RESERVED, Order.Status.SHIPPED)
    return booked


def send_dispatch_notice(order: Order, shipment: Shipment) -> Notice:
    """Mail the tracking number, once per order.

    As far as SMTP allows: a crash between the mail and the note of it repeats the mail.
    """
    told = Notice.objects.filter(order=order, channel=Notice.Channel.DISPATCH).first()
    if told is None:
        text = f"Your order {order.number} is on its way: {shipment.tracking_number}.\n"
        reference = mail.send(
            order.customer.email, f"Order {order.number} sent", text, message_id=f"{order.number}-dispatch"
        )
        told, _ = Notice.objects.get_or_create(
            order=order, channel=Notice.Channel.DISPATCH, defaults={"reference": reference}
        )
    order.advance(Order.Status.SHIPPED, Order.Status.FULFILLED)
    return told
