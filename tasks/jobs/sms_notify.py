"""sms_notify: tell a customer by SMS that the order has arrived at the shop."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db import transaction

from celeriac import Policy
from tasks.jobs.pace import QUICK
from tasks.jobs.steering import steering
from tasks.models import Effect, Notice, Order
from tasks.thirdparty import sms


@shared_task(bind=True, queue="sms", policy=Policy(max_retries=3, backoff=QUICK, timeout=30))
def sms_notify(self: Any, order_id: int, phone: str) -> str:
    """Send the confirmation of *order_id* to *phone*; returns the gateway's message id."""
    order = Order.objects.get(pk=order_id)
    with steering():
        message_id = sms.send(phone, f"Your order {order.number} is confirmed.", request_id=self.request.id)
    with transaction.atomic():
        Notice.objects.get_or_create(order=order, channel=Notice.Channel.SMS, defaults={"reference": message_id})
        Effect.count(self.request.id, "sms_notify")
    return message_id
