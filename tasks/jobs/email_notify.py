"""email_notify: confirm an order by mail."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db import transaction

from celeriac import Policy
from tasks.jobs.pace import QUICK
from tasks.jobs.steering import steering
from tasks.models import Effect, Notice, Order
from tasks.thirdparty import mail


@shared_task(bind=True, queue="email", policy=Policy(max_retries=3, backoff=QUICK, timeout=30))
def email_notify(self: Any, order_id: int, address: str) -> str:
    """Mail the confirmation of *order_id* to *address*; returns the mail's Message-ID."""
    order = Order.objects.select_related("product").get(pk=order_id)
    text = f"Thank you. Your order {order.number}: {order.quantity} of {order.product.sku}.\n"
    with steering():
        message_id = mail.send(address, f"Order {order.number}", text, message_id=self.request.id)
    with transaction.atomic():
        Notice.objects.get_or_create(order=order, channel=Notice.Channel.EMAIL, defaults={"reference": message_id})
        Effect.count(self.request.id, "email_notify")
    return message_id
