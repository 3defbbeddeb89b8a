"""What ``celeriac health`` asks of PostgreSQL: small questions, asked by every probe of every process.

``now`` is put in by the caller (``clock.now_sql()``).
"""

from __future__ import annotations

from celeriac.ledger.dialects.postgres_fleet import SEAT_LOCK_HELD, TERM_LOCK_HELD, WITNESS_LOCK_HELD


def workers(now: str) -> str:
    """(host or NULL for all, node name or NULL for all): incarnations that haven't ended, with both witnesses."""
    return f"""
SELECT w.hostname, w.id, w.state, {WITNESS_LOCK_HELD}, extract(epoch FROM {now} - w.beat_at)::float8,
       extract(epoch FROM {now} - w.started_at)::float8, w.slots, w.free, ARRAY(SELECT jsonb_array_elements_text(w.queues))
FROM celeriac_worker w
WHERE w.ended_at IS NULL AND w.host = COALESCE(%s, w.host) AND w.hostname = COALESCE(%s, w.hostname)
ORDER BY w.hostname, w.started_at"""


def seats(now: str) -> str:
    """Seats that a scheduler sits in: who, and seconds since its loop last made a pass."""
    return f"""
SELECT l.name, l.holder, extract(epoch FROM {now} - l.renewed_at)::float8 FROM celeriac_lease l
WHERE l.name LIKE 'seat-%%' AND {SEAT_LOCK_HELD} ORDER BY l.name"""


def leader(now: str) -> str:
    """Term, holder, whether the term's lock is held, seconds since the lease was renewed."""
    return f"""
SELECT l.term, l.holder, {TERM_LOCK_HELD}, extract(epoch FROM {now} - l.renewed_at)::float8 FROM celeriac_lease l
WHERE l.name = 'scheduler'"""


def queues_due(now: str) -> str:
    """Queues that aren't switched off and have a due job, or one in the broker, whose type isn't either.

    A loose index scan over the queues that have anything, then ten probes each: DISTINCT would read the whole backlog.
    """
    return f"""
WITH off AS (
    SELECT key FROM celeriac_control WHERE value = 'false'::jsonb AND key LIKE 'consume:%%'
), types_off AS (
    SELECT COALESCE(array_agg(substr(key, 14)), '{{}}') AS names FROM off WHERE key LIKE 'consume:type:%%'
), queues AS (
    {_queues("status IN ('PENDING', 'RETRY')")} UNION {_queues("status = 'DISPATCHED'")}
)
SELECT q.queue FROM queues q, types_off WHERE NOT EXISTS (SELECT 1 FROM off WHERE off.key = 'consume:queue:' || q.queue) AND (
    EXISTS (SELECT 1 FROM celeriac_live l WHERE l.queue = q.queue AND l.status = 'DISPATCHED' AND l.task_type <> ALL (types_off.names))
    OR EXISTS (SELECT 1 FROM generate_series(10, 0, -1) AS p(priority) WHERE EXISTS (
        SELECT 1 FROM celeriac_live l WHERE l.queue = q.queue AND l.priority = p.priority AND l.status IN ('PENDING', 'RETRY')
          AND l.run_at <= {now} AND l.task_type <> ALL (types_off.names)
    ))
) ORDER BY q.queue"""


def _queues(where: str) -> str:
    return f"""SELECT queue FROM (
        WITH RECURSIVE q AS (
            (SELECT queue FROM celeriac_live WHERE {where} ORDER BY queue LIMIT 1)
            UNION ALL
            SELECT (SELECT queue FROM celeriac_live WHERE {where} AND queue > q.queue ORDER BY queue LIMIT 1) FROM q WHERE q.queue IS NOT NULL
        ) SELECT queue FROM q WHERE queue IS NOT NULL
    ) AS found"""
