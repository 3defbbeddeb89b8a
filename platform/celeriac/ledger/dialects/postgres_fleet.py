"""Statements about processes for PostgreSQL: the lease, workers and their witnesses.

``now`` is put in by the caller (``clock.now_sql()``). Locks are looked at in ``pg_locks`` and never tried: a try that succeeds would be a false
witness for everybody who looks meanwhile.
"""

from __future__ import annotations

from typing import Final

#: First key of the scheduler's advisory locks, one per term ("CEL1" in ASCII). Two int keys have objsubid 2 in pg_locks.
SCHEDULER: Final = 0x43454C31
#: The same for incarnations, one a worker ("CEL2"), and for the seats of schedulers ("CEL3").
WITNESS: Final = 0x43454C32
SEATS: Final = 0x43454C33

_HERE: Final = "k.database = (SELECT oid FROM pg_database WHERE datname = current_database())"

#: Whether the lock of the lease's term is held, by anybody. Expects the lease as ``l``.
TERM_LOCK_HELD: Final = (
    f"EXISTS (SELECT 1 FROM pg_locks k WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND {_HERE} "
    f"AND k.classid = {SCHEDULER}::bigint::oid AND k.objid = l.term::bigint::oid)"
)

#: Whether a worker's witness lock is held, by anybody. Expects the worker as ``w``.
WITNESS_LOCK_HELD: Final = (
    f"EXISTS (SELECT 1 FROM pg_locks k WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND {_HERE} "
    f"AND k.classid = {WITNESS}::bigint::oid AND k.objid = (w.lock_key & 4294967295)::oid)"
)

#: Whether the scheduler that took a seat still holds its lock. Expects the seat's lease as ``l``.
SEAT_LOCK_HELD: Final = (
    f"EXISTS (SELECT 1 FROM pg_locks k WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND {_HERE} "
    f"AND k.classid = {SEATS}::bigint::oid AND k.objid = substr(l.name, 6)::bigint::oid)"
)

#: The server notices within about 4 s that our host is gone; without effect on a local socket.
KEEP_ALIVE: Final = ("SET tcp_keepalives_idle = 1", "SET tcp_keepalives_interval = 1", "SET tcp_keepalives_count = 3")

#: The same from our side, as options of the connection (seconds; the last in milliseconds).
IMPATIENT: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}

#: For a worker's children: what a run doesn't notice for a quarter of a minute costs its own slot only, and a task's session may be anywhere.
PATIENT: Final = {
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15000,
}

#: No statement of the scheduler waits for a row lock; this bounds what SKIP LOCKED doesn't reach. A beat that waited would say what time it was.
DO_NOT_WAIT: Final = "SET lock_timeout = '500ms'"

#: A beat that a crash of the database takes back is one of all beats that are old then.
NEEDN_T_LAST: Final = "SET synchronous_commit = off"

TAKE_WITNESS_LOCK: Final = f"SELECT pg_try_advisory_lock({WITNESS}, %s), pg_backend_pid()"

FREE_TERM_LOCK: Final = f"SELECT pg_advisory_unlock({SCHEDULER}, %s)"

#: Whether worker ``id`` lives, in words that the planner doesn't match with the index of the living: in a table of a hundred rows it would walk
#: over all of them for the one whose key is given.
LIVES: Final = "COALESCE({w}ended_at, 'infinity') = 'infinity'"

#: Still ours?
_LEADS: Final = "EXISTS (SELECT 1 FROM celeriac_lease WHERE name = 'scheduler' AND term = %s)"


def create_lease(now: str) -> str:
    """The scheduler's lease, unless it is there."""
    return f"""
INSERT INTO celeriac_lease (name, term, holder, renewed_at) VALUES ('scheduler', 0, '', {now}) ON CONFLICT DO NOTHING"""


def look_at_lease(now: str) -> str:
    """Term, whether its lock is held, seconds since it was renewed, and what time it is."""
    return f"""
SELECT l.term, {TERM_LOCK_HELD}, extract(epoch FROM {now} - l.renewed_at)::float8, extract(epoch FROM {now})::float8
FROM celeriac_lease l WHERE l.name = 'scheduler'"""


def renew_lease(now: str) -> str:
    """(term): seconds since it was renewed last, and what time it is; no row when another scheduler has taken over."""
    return f"""
UPDATE celeriac_lease l SET renewed_at = {now} FROM celeriac_lease before WHERE l.name = 'scheduler' AND before.name = l.name AND l.term = %s
RETURNING extract(epoch FROM {now} - before.renewed_at)::float8, extract(epoch FROM {now})::float8"""


def extend_deadlines(now: str) -> str:
    """(seconds): nobody could settle while the ledger was away; what was under way gets the time back, as far as it ran in it."""
    return f"""
UPDATE celeriac_live SET deadline = deadline + LEAST(make_interval(secs => %s), {now} - claimed_at)
WHERE status = 'RUNNING' AND deadline IS NOT NULL"""


def take_lease(now: str) -> str:
    """(holder, term seen): the next term and its lock in one statement, so that nobody ever sees the term without its lock."""
    return f"""
WITH taken AS (
    UPDATE celeriac_lease SET term = term + 1, holder = %s, renewed_at = {now} WHERE name = 'scheduler' AND term = %s RETURNING term
)
SELECT term, pg_advisory_lock({SCHEDULER}, term::int) FROM taken"""


def _seat_is_free(now: str) -> str:
    """Nobody sits in it, and it isn't booked: its sitter writes ``renewed_at`` as it goes round, a booking puts it into the future."""
    return f"(l.renewed_at < {now} - interval '1 second' AND NOT {SEAT_LOCK_HELD})"


def free_seat(now: str) -> str:
    """(last seat): the first seat up to the last that is free."""
    return f"""
SELECT n FROM generate_series(1, %s) AS n LEFT JOIN celeriac_lease l ON l.name = 'seat-' || n
WHERE l.name IS NULL OR {_seat_is_free(now)} ORDER BY n LIMIT 1"""


def book_seat(now: str) -> str:
    """(name, holder, seconds that the booking holds): no row when somebody else was first."""
    return f"""
INSERT INTO celeriac_lease AS l (name, term, holder, renewed_at) VALUES (%s, 1, %s, {now} + make_interval(secs => %s))
ON CONFLICT (name) DO UPDATE SET term = l.term + 1, holder = EXCLUDED.holder, renewed_at = EXCLUDED.renewed_at
WHERE {_seat_is_free(now)} RETURNING term"""


def give_booking_back(now: str) -> str:
    """(holder): the seats that it booked are free, unless somebody has sat down: that scheduler is their holder then."""
    return f"""
UPDATE celeriac_lease SET renewed_at = {now} - interval '2 seconds' WHERE name LIKE 'seat-%%' AND holder = %s AND renewed_at > {now} RETURNING name"""


def seat_silence(now: str) -> str:
    """(holder): seconds since it kept its seat."""
    return f"""
SELECT extract(epoch FROM {now} - l.renewed_at)::float8 FROM celeriac_lease l WHERE l.name LIKE 'seat-%%' AND l.holder = %s"""


#: (seat): whether we sit in it now.
TAKE_SEAT: Final = f"SELECT pg_try_advisory_lock({SEATS}, %s)"

FREE_SEAT: Final = f"SELECT pg_advisory_unlock({SEATS}, %s)"


def keep_seat(now: str) -> str:
    """(name, holder): the seat's holder says that its loop goes round."""
    return f"""
INSERT INTO celeriac_lease AS l (name, term, holder, renewed_at) VALUES (%s, 1, %s, {now})
ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, renewed_at = EXCLUDED.renewed_at"""


def register_worker(now: str) -> str:
    """(id, hostname, host, pid, pool, queues, tasks, slots, versions, lock key): the row of a new incarnation."""
    return f"""
INSERT INTO celeriac_worker (id, hostname, host, pid, pool, queues, tasks, slots, held, state, versions, lock_key, witnessed, started_at, beat_at, verdict)
VALUES (%s, %s, %s, %s, %s, %s::jsonb, %s::jsonb, %s, 0, 'starting', %s::jsonb, %s, true, {now}, {now}, '')
ON CONFLICT (id) DO UPDATE SET lock_key = EXCLUDED.lock_key"""


def beat(now: str) -> str:
    """(held, slots, free, rss, queues, state, lock key, witnessed, id): whether it is to drain, and which process of the server has served us.

    No row when the incarnation was given up.
    """
    return f"""
UPDATE celeriac_worker w SET beat_at = {now}, held = %s, slots = %s, free = %s, rss = %s, queues = %s::jsonb, state = %s, lock_key = %s,
    witnessed = %s
WHERE id = %s AND {LIVES.format(w="w.")}
RETURNING drain, pg_backend_pid()"""


def end_worker(now: str) -> str:
    """(state, verdict, id): good-bye."""
    return f"""
UPDATE celeriac_worker SET state = %s, verdict = %s, held = 0, free = 0, ended_at = {now} WHERE id = %s AND {LIVES.format(w="")} RETURNING id"""


def readings(now: str) -> str:
    """(settle-in seconds): what time it is, and both witnesses on each live incarnation; nothing while the database itself is young."""
    return f"""
SELECT extract(epoch FROM {now})::float8, w.id, w.hostname, extract(epoch FROM {now} - w.beat_at)::float8, {WITNESS_LOCK_HELD}, w.witnessed, w.rss
FROM celeriac_worker w
WHERE w.ended_at IS NULL AND pg_postmaster_start_time() < statement_timestamp() - make_interval(secs => %s)"""


def give_up(now: str) -> str:
    """(id, seconds of silence, term, verdict): unless it has beaten since, or we no longer lead.

    Fails at once (``lock_not_available``) while somebody holds the row: its beats wait as we would, and the last one says nothing.
    """
    return f"""
WITH silent AS (
    SELECT id FROM celeriac_worker
    WHERE id = %s AND ended_at IS NULL AND beat_at <= {now} - make_interval(secs => %s) AND {_LEADS} FOR UPDATE NOWAIT
)
UPDATE celeriac_worker w SET state = 'gone', ended_at = {now}, verdict = %s, held = 0, free = 0,
    suspects = (SELECT count(*) FROM celeriac_live l WHERE l.worker = w.id AND l.status = 'RUNNING' AND l.suspicion > 0)
FROM silent WHERE w.id = silent.id RETURNING w.id"""


#: (limit): RUNNING jobs of incarnations that have ended, one after the other.
ORPHANS: Final = """
SELECT l.job_id, l.fence, l.task_type, l.worker, l.suspicion, l.lost_count, COALESCE(w.state = 'gone', false),
       COALESCE(w.verdict, 'its row is missing'), COALESCE(w.suspects, 0)
FROM celeriac_live l LEFT JOIN celeriac_worker w ON w.id = l.worker
WHERE l.status = 'RUNNING' AND (w.id IS NULL OR w.ended_at IS NOT NULL) ORDER BY l.worker LIMIT %s"""

#: (limit): jobs on their way, through its own queue, to a worker that has ended or consumes no more.
ADDRESSED_TO_NOBODY: Final = """
SELECT l.job_id, l.fence, l.worker FROM celeriac_live l LEFT JOIN celeriac_worker w ON w.id = l.worker
WHERE l.suspicion > 0 AND l.status = 'DISPATCHED' AND (w.id IS NULL OR w.ended_at IS NOT NULL OR w.state <> 'alive') LIMIT %s"""


def overrun(now: str) -> str:
    """(limit): RUNNING jobs past their deadline: by how many seconds, and in which pool."""
    return f"""
SELECT l.job_id, l.fence, l.task_type, l.worker, l.retry_count, w.pool, extract(epoch FROM {now} - l.deadline)::float8,
       extract(epoch FROM l.deadline - l.claimed_at)::float8
FROM celeriac_live l LEFT JOIN celeriac_worker w ON w.id = l.worker
WHERE l.status = 'RUNNING' AND l.deadline < {now} LIMIT %s"""


#: (worker, jobs): which of these jobs the worker still has, or held for review under the fence of its claim.
STILL_ITS_OWN: Final = """
SELECT l.job_id, l.fence FROM celeriac_live l
WHERE l.job_id = ANY (%s) AND ((l.status = 'RUNNING' AND l.worker = %s) OR (l.status = 'PARKED' AND l.parked_reason = 'review'))"""
