"""points_accrual: credit an order's loyalty points."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db import transaction
from django.db.models import F

from celeriac import JobError, Policy
from tasks.jobs.pace import QUICK
from tasks.models import Customer, Effect, Order, PointsEntry


class CardUnknown(JobError):
    """The loyalty card isn't the customer's."""

    code = "POINTS_CARD_UNKNOWN_404"


@shared_task(bind=True, queue="points", policy=Policy(max_retries=3, backoff=QUICK, timeout=15))
def points_accrual(self: Any, order_id: int, card: str) -> int:
    """Credit *card* with one point per whole unit of the price of *order_id*; returns the points."""
    order = Order.objects.select_related("customer", "product").get(pk=order_id)
    if order.customer.loyalty_card != card:
        raise CardUnknown(f"card {card} doesn't belong to {order.customer}")
    points = int(order.product.price * order.quantity)
    with transaction.atomic():
        _, first = PointsEntry.objects.get_or_create(
            order=order, defaults={"customer": order.customer, "points": points}
        )
        if first:
            Customer.objects.filter(pk=order.customer_id).update(points=F("points") + points)
        Effect.count(self.request.id, "points_accrual")
    return points
