"""Statements about processes for PostgreSQL: the lease, workers and their witnesses.

``now`` is put in by the caller (``clock.now_sql()``). Locks are looked at in ``pg_locks`` and never tried: a try that succeeds would be a false
witness for everybody who looks meanwhile.
"""

from __future__ import annotations

from typing import Final

#: First key of the scheduler's advisory locks, one per term ("CEL1" in ASCII). Two int keys have objsubid 2 in pg_locks.
SCHEDULER: Final = 0x43454C31

_HERE: Final = "k.database = (SELECT oid FROM pg_database WHERE datname = current_database())"

#: Whether the lock of the lease's term is held, by anybody. Expects the lease as ``l``.
TERM_LOCK_HELD: Final = (
    f"EXISTS (SELECT 1 FROM pg_locks k WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND {_HERE} "
    f"AND k.classid = {SCHEDULER}::bigint::oid AND k.objid = l.term::bigint::oid)"
)

#: Whether a worker's witness lock is held, by anybody. Expects the worker as ``w``; halves of a bigint key have objsubid 1.
WITNESS_LOCK_HELD: Final = (
    f"EXISTS (SELECT 1 FROM pg_locks k WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1 AND {_HERE} "
    "AND k.classid = ((w.lock_key >> 32) & 4294967295)::oid AND k.objid = (w.lock_key & 4294967295)::oid)"
)

#: The server notices within about 4 s that our host is gone; without effect on a local socket.
KEEP_ALIVE: Final = ("SET tcp_keepalives_idle = 1", "SET tcp_keepalives_interval = 1", "SET tcp_keepalives_count = 3")

#: No statement of the scheduler waits for a row lock; this bounds what SKIP LOCKED doesn't reach.
DO_NOT_WAIT: Final = "SET lock_timeout = '500ms'"

TAKE_WITNESS_LOCK: Final = "SELECT pg_advisory_lock(%s)"

FREE_TERM_LOCK: Final = f"SELECT pg_advisory_unlock({SCHEDULER}, %s)"

#: Still ours?
_LEADS: Final = "EXISTS (SELECT 1 FROM celeriac_lease WHERE name = 'scheduler' AND term = %s)"


def create_lease(now: str) -> str:
    """The scheduler's lease, unless it is there."""
    return f"""
INSERT INTO celeriac_lease (name, term, holder, renewed_at) VALUES ('scheduler', 0, '', {now}) ON CONFLICT DO NOTHING"""


def look_at_lease(now: str) -> str:
    """Term, whether its lock is held, seconds since it was renewed."""
    return f"""
SELECT l.term, {TERM_LOCK_HELD}, extract(epoch FROM {now} - l.renewed_at) FROM celeriac_lease l WHERE l.name = 'scheduler'"""


def renew_lease(now: str) -> str:
    """(term): no row when another scheduler has taken over."""
    return f"""
UPDATE celeriac_lease SET renewed_at = {now} WHERE name = 'scheduler' AND term = %s RETURNING term"""


def take_lease(now: str) -> str:
    """(holder, term seen): the next term and its lock in one statement, so that nobody ever sees the term without its lock."""
    return f"""
WITH taken AS (
    UPDATE celeriac_lease SET term = term + 1, holder = %s, renewed_at = {now} WHERE name = 'scheduler' AND term = %s RETURNING term
)
SELECT term, pg_advisory_lock({SCHEDULER}, term::int) FROM taken"""


def register_worker(now: str) -> str:
    """(id, hostname, pid, pool, queues, tasks, slots, versions, lock key): the row of a new incarnation."""
    return f"""
INSERT INTO celeriac_worker (id, hostname, pid, pool, queues, tasks, slots, held, state, versions, lock_key, witnessed, started_at, beat_at, verdict)
VALUES (%s, %s, %s, %s, %s::jsonb, %s::jsonb, %s, 0, 'alive', %s::jsonb, %s, true, {now}, {now}, '')
ON CONFLICT (id) DO NOTHING"""


def beat(now: str) -> str:
    """(held, slots, queues, state, id): no row when the incarnation was given up."""
    return f"""
UPDATE celeriac_worker SET beat_at = {now}, held = %s, slots = %s, queues = %s::jsonb, state = %s
WHERE id = %s AND ended_at IS NULL RETURNING id"""


def end_worker(now: str) -> str:
    """(state, id): good-bye."""
    return f"""
UPDATE celeriac_worker SET state = %s, held = 0, ended_at = {now} WHERE id = %s AND ended_at IS NULL RETURNING id"""


def readings(now: str) -> str:
    """(settle-in seconds): both witnesses on each live incarnation; nothing while the database itself is young."""
    return f"""
SELECT w.id, w.hostname, extract(epoch FROM {now} - w.beat_at), {WITNESS_LOCK_HELD}, w.witnessed FROM celeriac_worker w
WHERE w.ended_at IS NULL AND pg_postmaster_start_time() < statement_timestamp() - make_interval(secs => %s)"""


def give_up(now: str) -> str:
    """(verdict, id, seconds of silence, term): unless it has beaten since, or we no longer lead."""
    return f"""
UPDATE celeriac_worker SET state = 'gone', ended_at = {now}, verdict = %s
WHERE id = %s AND ended_at IS NULL AND beat_at <= {now} - make_interval(secs => %s) AND {_LEADS} RETURNING id"""


#: (limit): RUNNING jobs of incarnations that have ended.
ORPHANS: Final = """
SELECT l.job_id, l.fence, l.task_type, l.worker, w.verdict FROM celeriac_live l JOIN celeriac_worker w ON w.id = l.worker
WHERE l.status = 'RUNNING' AND w.ended_at IS NOT NULL LIMIT %s"""


def overrun(now: str) -> str:
    """(limit): RUNNING jobs past their deadline."""
    return f"""
SELECT l.job_id, l.fence, l.task_type, l.worker, 'ran past its deadline, and its worker did not end it'
FROM celeriac_live l WHERE l.status = 'RUNNING' AND l.deadline < {now} LIMIT %s"""
