"""Flower's configuration: it does not start without authentication.

Flower shows arguments and lets its users revoke jobs and stop workers, so an open one is an open door.
"""

import os

_users = os.environ.get("FLOWER_BASIC_AUTH", "")
if ":" not in _users:
    raise SystemExit("Set FLOWER_BASIC_AUTH to user:password; Flower is not started without it.")

basic_auth = _users.split(",")
address = os.environ.get("FLOWER_ADDRESS", "127.0.0.1")
port = int(os.environ.get("FLOWER_PORT", "5555"))
# What it remembers is for looking at; the ledger is the record.
max_tasks = 10_000
