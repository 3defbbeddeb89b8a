"""The ledger's time: the database's clock, in one place, movable in tests.

Machines' clocks differ by seconds or hours; due, expiry, lease and deadline are therefore always compared with the
database's clock. ``statement_timestamp()`` is used and not ``clock_timestamp()``: it is STABLE, so an index on ``run_at``
can serve ``run_at <= now``, and not ``now()``, which stands still in a long transaction.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db.models import DateTimeField, Func

if TYPE_CHECKING:
    from collections.abc import Iterator

_shift_seconds: float = 0.0


def now_sql() -> str:
    """The SQL of "now" on the ledger's clock."""
    if not _shift_seconds:
        return "statement_timestamp()"
    return f"(statement_timestamp() + interval '{_shift_seconds:.6f} seconds')"


class Now(Func):
    """``now_sql()`` as an expression for the ORM."""

    output_field = DateTimeField()

    def as_sql(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, tuple[str | int, ...]]:  # type: ignore[override]
        return now_sql(), ()


@contextmanager
def shift(seconds: float) -> Iterator[None]:
    """Move the ledger's clock by *seconds* for this process, in tests. Nested shifts add up."""
    global _shift_seconds
    _shift_seconds += seconds
    try:
        yield
    finally:
        _shift_seconds -= seconds
