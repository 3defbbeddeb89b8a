"""Places the demo's orders and audits what became of them, from the shop's own books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, TypedDict

from celery.result import AsyncResult
from django.db import transaction

from tasks.demo import sandbox, stockroom
from tasks.demo.ledger import held
from tasks.demo.plan import CALLED_OFF, DIE, RECOVER, Basket, Fate, plan
from tasks.jobs import data_sync, email_notify, fulfil_order, points_accrual, sms_notify
from tasks.models import Ask, Batch, Effect, Order


class Placed(TypedDict):
    """What :func:`place` did. The last three count jobs, each planned to end that way."""

    batch: int
    seed: int
    orders: int
    rolled_back: int
    enqueued: int
    will_recover: int
    will_dead_letter: int
    will_cancel: int


class Audit(TypedDict):
    """What :func:`audit` found."""

    lost: int
    duplicated: int


def place(n: int, seed: int) -> Placed:
    """Place *n* orders, each in a transaction of its own together with its jobs, some failures included.

    Orders, quantities and fates follow from *seed* (see ``plan.py``); only ids differ when the same seed is
    used again.
    """
    batch = Batch.objects.create(seed=seed, orders=n)
    till = _Till(batch, n)
    baskets = plan(n, seed)
    for basket in baskets:
        till.sell(basket)
    fates = Counter(basket.fate for basket in baskets)
    return Placed(
        batch=batch.pk,
        seed=seed,
        orders=n - fates[Fate.ROLLED_BACK],
        rolled_back=fates[Fate.ROLLED_BACK],
        enqueued=till.enqueued,
        will_recover=sum(fates[fate] for fate in RECOVER),
        will_dead_letter=sum(fates[fate] for fate in DIE),
        will_cancel=sum(fates[fate] for fate in CALLED_OFF),
    )


def audit(batch: int | None = None) -> Audit:
    """What was lost and what happened too often, of one *batch* or of all.

    lost: asked for, without an effect, and not held by a dead letter, a parked or a cancelled job. A job that
    is still on its way counts until it has run, so ask when the backlog is empty.

    duplicated: executions that ran to their end beyond the one that was allowed. A job that was called off,
    or whose transaction was rolled back, is allowed none.
    """
    asks = Ask.objects.all() if batch is None else Ask.objects.filter(batch_id=batch)
    acted = {(job_id, kind): times for job_id, kind, times in Effect.objects.values_list("job_id", "kind", "acted")}
    missing, duplicated = [], 0
    for ask in asks.iterator():
        times = acted.get((ask.job_id, ask.kind), 0)
        duplicated += max(0, times - ask.allowed)
        if times < ask.allowed:
            missing.append(ask.job_id)
    return Audit(lost=len(set(missing) - held(missing)), duplicated=duplicated)


class _Till:
    """Sells one basket at a time."""

    def __init__(self, batch: Batch, orders: int) -> None:
        self._batch = batch
        self._customers = stockroom.customers()
        self._products = stockroom.products(stock=3 * orders)
        self._sold_out = stockroom.sold_out()
        self.enqueued = 0

    def sell(self, basket: Basket) -> None:
        """One transaction: the order, its jobs, and a note of what was asked for."""
        with transaction.atomic():
            asked = list(self._enqueue(self._write_down(basket), basket))
            if basket.fate is Fate.ROLLED_BACK:
                transaction.set_rollback(True)
            else:
                Ask.objects.bulk_create(asked)
                self.enqueued += len(asked)
        if basket.fate is Fate.ROLLED_BACK:
            # Noted outside: none of these jobs may ever act.
            Ask.objects.bulk_create(
                Ask(batch=self._batch, job_id=ask.job_id, kind=ask.kind, allowed=0) for ask in asked
            )
        if basket.fate is Fate.REVOKED:
            for ask in asked:
                if ask.allowed == 0:
                    AsyncResult(str(ask.job_id)).revoke()

    def _write_down(self, basket: Basket) -> Order:
        product = self._sold_out if basket.fate is Fate.SOLD_OUT else self._products[basket.product]
        return Order.objects.create(
            number=f"order-{self._batch.pk}-{basket.number}",
            batch=self._batch,
            customer=self._customers[basket.customer],
            product=product,
            quantity=basket.quantity,
        )

    def _enqueue(self, order: Order, basket: Basket) -> Iterator[Ask]:
        fate, customer = basket.fate, order.customer
        phone = {Fate.SMS_REFUSED: sandbox.PHONE_UNKNOWN, Fate.SMS_RECOVERS: sandbox.PHONE_FLAKY}.get(
            fate, customer.phone
        )
        address = {Fate.MAIL_REFUSED: sandbox.MAIL_UNKNOWN, Fate.MAIL_RECOVERS: sandbox.MAIL_GREYLISTED}.get(
            fate, customer.email
        )
        prefix = {Fate.SYNC_BROKEN: sandbox.RECORD_BROKEN, Fate.SYNC_RECOVERS: sandbox.RECORD_FLAKY}.get(fate, "")
        # Due in an hour and called off at once; due after it has expired.
        when: dict[str, Any] = {
            Fate.REVOKED: {"countdown": 3600},
            Fate.EXPIRED: {"countdown": 2, "expires": 1},
        }.get(fate, {})

        yield self._ask("fulfil_order", fulfil_order.apply_async((order.pk,), biz_id=order.number))
        yield self._ask("sms_notify", sms_notify.apply_async((order.pk,), {"phone": phone}, biz_id=order.number))
        yield self._ask("email_notify", email_notify.apply_async((order.pk, address), biz_id=order.number))
        token = stockroom.partner_token(customer)
        yield self._ask(
            "data_sync",
            data_sync.apply_async((f"{prefix}{order.number}",), {"token": token}, biz_id=order.number),
        )
        points = points_accrual.apply_async((order.pk,), {"card": customer.loyalty_card}, biz_id=order.number, **when)
        yield self._ask("points_accrual", points, allowed=0 if fate in CALLED_OFF else 1)

    def _ask(self, kind: str, job: AsyncResult, allowed: int = 1) -> Ask:
        return Ask(batch=self._batch, job_id=job.id, kind=kind, allowed=allowed)
