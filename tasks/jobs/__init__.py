"""The shop's job types, one a module. Importing this package registers them all."""

from __future__ import annotations

from tasks.jobs.data_sync import data_sync
from tasks.jobs.email_notify import email_notify
from tasks.jobs.fulfil_order import fulfil_order
from tasks.jobs.points_accrual import points_accrual
from tasks.jobs.sms_notify import sms_notify

__all__ = ["data_sync", "email_notify", "fulfil_order", "points_accrual", "sms_notify"]
