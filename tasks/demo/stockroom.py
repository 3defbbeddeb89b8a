"""The shop's customers and products, as the demo needs them."""

from __future__ import annotations

import random
from decimal import Decimal

from tasks.demo import plan, sandbox
from tasks.models import Customer, Product


def customers() -> list[Customer]:
    """The demo's customers, made on first use. Their data is made up, but looks like what must never leak."""
    Customer.objects.bulk_create(map(_customer, range(plan.CUSTOMERS)), ignore_conflicts=True)
    return list(Customer.objects.filter(name__in=[f"customer-{n}" for n in range(plan.CUSTOMERS)]).order_by("pk"))


def products(stock: int) -> list[Product]:
    """The demo's products, each filled up to at least *stock*."""
    names = [f"product-{n}" for n in range(plan.PRODUCTS)]
    Product.objects.bulk_create(
        [Product(sku=sku, price=Decimal(5 + 3 * n)) for n, sku in enumerate(names)], ignore_conflicts=True
    )
    Product.objects.filter(sku__in=names, stock__lt=stock).update(stock=stock)
    return list(Product.objects.filter(sku__in=names).order_by("pk"))


def sold_out() -> Product:
    """The product that is never restocked."""
    return Product.objects.get_or_create(sku=sandbox.SKU_SOLD_OUT, defaults={"price": Decimal(9)})[0]


def partner_token(customer: Customer) -> str:
    """The token that the partner issued for *customer*: derived from the name, so it never changes."""
    return f"tok_live_{random.Random(customer.name).randbytes(16).hex()}"


def planted_secrets() -> frozenset[str]:
    """Every phone, card and token that the demo passes to a job.

    A scan of broker, events and logs must find none of them.
    """
    everyone = customers()
    return frozenset(
        {customer.phone for customer in everyone}
        | {customer.loyalty_card for customer in everyone}
        | {partner_token(customer) for customer in everyone}
        | {sandbox.PHONE_UNKNOWN, sandbox.PHONE_FLAKY}
    )


def _customer(number: int) -> Customer:
    name = f"customer-{number}"
    chance = random.Random(name)
    return Customer(
        name=name,
        email=f"{name}@mail.example",
        # +1 202 555 01xx is kept free for fiction.
        phone=f"+120255501{number:02d}",
        loyalty_card="4000" + "".join(str(chance.randrange(10)) for _ in range(12)),
    )
