"""Which orders are placed and what becomes of each: a pure function of their number and a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fate(StrEnum):
    """What is special about an order. Every order asks for five jobs; a fate concerns one of them, or all."""

    PLAIN = "plain"  #: everything works
    SMS_RECOVERS = "sms recovers"  #: the gateway fails twice: two retries
    MAIL_RECOVERS = "mail recovers"  #: the mail server greylists: two retries
    SYNC_RECOVERS = "sync recovers"  #: the partner fails twice: two retries
    SMS_REFUSED = "sms refused"  #: unknown number: dead letter at once
    MAIL_REFUSED = "mail refused"  #: no such mailbox: dead letter at once
    SYNC_BROKEN = "sync broken"  #: the partner fails every time: dead letter after the last retry
    SOLD_OUT = "sold out"  #: no stock: dead letter after the last retry
    REVOKED = "revoked"  #: the points job is called off before it is due: cancelled
    EXPIRED = "expired"  #: the points job is due after it has expired: cancelled
    ROLLED_BACK = "rolled back"  #: the order's transaction is rolled back: none of its jobs may exist


RECOVER: Final = frozenset({Fate.SMS_RECOVERS, Fate.MAIL_RECOVERS, Fate.SYNC_RECOVERS})
DIE: Final = frozenset({Fate.SMS_REFUSED, Fate.MAIL_REFUSED, Fate.SYNC_BROKEN, Fate.SOLD_OUT})
CALLED_OFF: Final = frozenset({Fate.REVOKED, Fate.EXPIRED})
SPECIAL: Final[tuple[Fate, ...]] = tuple(fate for fate in Fate if fate is not Fate.PLAIN)
#: From so many orders on every special fate is dealt out.
_DEALT_FROM: Final = 20

CUSTOMERS: Final = 40
PRODUCTS: Final = 24


@dataclass(frozen=True, slots=True)
class Basket:
    """One order to place. *number* counts from 1; *customer* and *product* are indexes from 0."""

    number: int
    customer: int
    product: int
    quantity: int
    fate: Fate


def plan(orders: int, seed: int) -> list[Basket]:
    """The baskets of *orders* orders.

    Of every hundred, one has each special fate; from 20 orders on there is at least one of each. Of fewer, each order
    has a special fate with a chance of one in ten.
    """
    chance = random.Random(seed)
    fates = _dealt(orders, chance) if orders >= _DEALT_FROM else _drawn(orders, chance)
    return [
        Basket(number, chance.randrange(CUSTOMERS), chance.randrange(PRODUCTS), chance.randint(1, 3), fate)
        for number, fate in enumerate(fates, start=1)
    ]


def _dealt(orders: int, chance: random.Random) -> list[Fate]:
    fates = list(SPECIAL) * max(1, orders // 100)
    fates += [Fate.PLAIN] * (orders - len(fates))
    chance.shuffle(fates)
    return fates


def _drawn(orders: int, chance: random.Random) -> list[Fate]:
    return [chance.choice(SPECIAL) if chance.random() < 0.1 else Fate.PLAIN for _ in range(orders)]
