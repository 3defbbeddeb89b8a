"""Advisory locks as witnesses: a session that lives holds its lock; the database frees it when the session ends.

Locks are looked at in ``pg_locks`` and never tried: a try that succeeds would be a false witness for everybody who looks meanwhile.
"""

from __future__ import annotations

from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

#: First key of the scheduler's locks, one per term ("CEL1" in ASCII).
SCHEDULER: Final = 0x43454C31

#: Whether the lock of (first, term) is held, by anybody. Two int keys have objsubid 2.
TERM_LOCK_HELD: Final = """EXISTS (SELECT 1 FROM pg_locks k WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
    AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND k.classid = {first}::bigint::oid AND k.objid = ({term})::bigint::oid)"""

#: Whether the lock of a bigint key is held, by anybody. Its halves are classid and objid, with objsubid 1.
KEY_LOCK_HELD: Final = """EXISTS (SELECT 1 FROM pg_locks k WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1
    AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND k.classid = (({key} >> 32) & 4294967295)::oid AND k.objid = ({key} & 4294967295)::oid)"""


def own_session(alias: str) -> BaseDatabaseWrapper:
    """A connection to *alias* of one's own, outside Django's per-thread registry: nothing that a task does can close it."""
    from django.db import connections

    session: BaseDatabaseWrapper = connections[alias].copy()
    session.inc_thread_sharing()
    return session


def keep_alive(session: BaseDatabaseWrapper) -> None:
    """Have the server notice within about 4 s that our host is gone (TCP keep-alives 1/1/3); without effect on a local socket."""
    with session.cursor() as cursor:
        cursor.execute("SET tcp_keepalives_idle = 1")
        cursor.execute("SET tcp_keepalives_interval = 1")
        cursor.execute("SET tcp_keepalives_count = 3")
