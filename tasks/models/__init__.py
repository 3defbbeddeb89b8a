"""The shop's tables, one noun a file."""

from __future__ import annotations

from tasks.models.ask import Ask
from tasks.models.batch import Batch
from tasks.models.customer import Customer
from tasks.models.effect import Effect
from tasks.models.notice import Notice
from tasks.models.order import Order
from tasks.models.points_entry import PointsEntry
from tasks.models.product import Product
from tasks.models.reservation import Reservation
from tasks.models.shipment import Shipment
from tasks.models.synced_record import SyncedRecord

__all__ = [
    "Ask",
    "Batch",
    "Customer",
    "Effect",
    "Notice",
    "Order",
    "PointsEntry",
    "Product",
    "Reservation",
    "Shipment",
    "SyncedRecord",
]
