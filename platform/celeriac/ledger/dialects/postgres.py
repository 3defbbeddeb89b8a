"""The hot statements for PostgreSQL 14 and later.

Each takes arrays and works on many rows; one row is the case of one. "now" is put in by the caller (``clock.now_sql()``), so
that tests can shift it; with an unshifted clock every text is constant and its plan is prepared once a session.
No statement of the scheduler waits for a row lock: rows that somebody holds are skipped and seen in the next pass.
"""

from __future__ import annotations

from functools import lru_cache

from celeriac.ledger.dialects.postgres_fleet import LIVES


def _bounded(seconds: str) -> str:
    """*seconds*, at most what an interval holds; NULL stays NULL (LEAST alone would pass it over), NaN is the bound."""
    return f"CASE WHEN {seconds} IS NOT NULL THEN LEAST({seconds}, 1e9) END"


@lru_cache(maxsize=256)
def accept_one(now: str, given: tuple[str, ...], fresh: bool) -> str:
    """Both rows of one job in one round trip. A task_id that exists changes nothing and returns no row.

    Arguments:
        given: names of the values that aren't absent, zero or empty: the others are left out, for most jobs have none of them, and
            each parameter costs on both sides.
        fresh: the id can't exist; the speculative insert of ON CONFLICT is saved.
    """
    optional = [name for name in ("alias", "biz_id", "trace_id", "root_id", "parent_id", "group_id") if name in given]
    names = "".join(f", {name}" for name in optional)
    values = "".join(f", %({name})s" for name in optional)
    priority = "%(priority)s::smallint" if "priority" in given else "0"
    retries = "%(retry_count)s::smallint" if "retry_count" in given else "0"
    moments = {}
    for moment, seconds in (("run_at", "delay"), ("expires_at", "expires_in")):
        if moment in given:
            moments[moment] = f"%({moment})s::timestamptz"
        elif seconds in given:
            moments[moment] = f"{now} + make_interval(secs => %({seconds})s::float8)"
    live = {"run_at": now, **moments, "status": "'PENDING'"}
    if "time_limit" in given:
        live["time_limit"] = "%(time_limit)s::float8"
    if "parked_reason" in given:
        live |= {"status": "'PARKED'", "parked_reason": "%(parked_reason)s"}
    return f"""
WITH j AS (
    INSERT INTO celeriac_job (task_id, task_type, queue, payload, created_at, priority, attempt, retry_count, lost_count, fence{names})
    VALUES (%(task_id)s, %(task_type)s, %(queue)s, %(payload)s, {now}, {priority}, 0, {retries}, 0, 0{values})
    {"" if fresh else "ON CONFLICT (task_id) DO NOTHING"}
    RETURNING seq
)
INSERT INTO celeriac_live (job_id, queue, task_type, priority, fence, attempt, retry_count, lost_count, sent_count, since, {", ".join(live)})
SELECT seq, %(queue)s, %(task_type)s, {priority}, 0, 0, {retries}, 0, 0, {now}, {", ".join(live.values())}
FROM j
RETURNING job_id"""


@lru_cache(maxsize=64)
def accept_many(now: str) -> str:
    """Both rows of many jobs. Returns (job, task_id) of those that were new."""
    return f"""
WITH asked AS (
    SELECT * FROM unnest(%(task_id)s::uuid[], %(alias)s::text[], %(task_type)s::text[], %(queue)s::text[], %(priority)s::smallint[],
                         %(biz_id)s::text[], %(trace_id)s::uuid[], %(root_id)s::uuid[], %(parent_id)s::uuid[], %(group_id)s::uuid[],
                         %(payload)s::text[], %(retry_count)s::smallint[], %(status)s::text[], %(run_at)s::timestamptz[],
                         %(delay)s::float8[], %(expires_at)s::timestamptz[], %(expires_in)s::float8[], %(time_limit)s::float8[],
                         %(parked_reason)s::text[])
        AS a(task_id, alias, task_type, queue, priority, biz_id, trace_id, root_id, parent_id, group_id, payload, retry_count, status,
             run_at, delay, expires_at, expires_in, time_limit, parked_reason)
), j AS (
    INSERT INTO celeriac_job (task_id, alias, task_type, queue, priority, biz_id, trace_id, root_id, parent_id, group_id,
                              payload, created_at, attempt, retry_count, lost_count, fence)
    SELECT task_id, alias, task_type, queue, priority, biz_id, trace_id, root_id, parent_id, group_id, payload, {now},
           0, retry_count, 0, 0
    FROM asked
    ON CONFLICT (task_id) DO NOTHING
    RETURNING seq, task_id
), l AS (
    INSERT INTO celeriac_live (job_id, status, queue, task_type, priority, run_at, expires_at, fence, attempt, retry_count,
                               lost_count, sent_count, time_limit, parked_reason, since)
    SELECT j.seq, a.status, a.queue, a.task_type, a.priority,
           COALESCE(a.run_at, {now} + make_interval(secs => a.delay)),
           COALESCE(a.expires_at, {now} + make_interval(secs => a.expires_in)),
           0, 0, a.retry_count, 0, 0, a.time_limit, a.parked_reason, {now}
    FROM j JOIN asked a USING (task_id)
    RETURNING job_id
)
SELECT j.seq, j.task_id FROM j JOIN l ON l.job_id = j.seq"""


@lru_cache(maxsize=64)
def claim(now: str) -> str:
    """DISPATCHED → RUNNING under the next fence, and the payload, in one round trip.

    Guards: the message's fence, not expired, the claiming incarnation is not given up. The incarnation's row isn't locked:
    a claim that passes a verdict unseen is found by the rescue, which is a standing query, and its outcome is refused.
    """
    return f"""
WITH asked AS (
    SELECT * FROM unnest(%(jobs)s::bigint[], %(fences)s::bigint[], %(limits)s::float8[]) AS a(job_id, fence, time_limit)
), me AS (
    SELECT id FROM celeriac_worker WHERE id = %(worker)s::uuid AND {LIVES.format(w="")}
), taken AS (
    UPDATE celeriac_live l
    SET status = 'RUNNING', fence = l.fence + 1, attempt = l.attempt + 1, worker = me.id, child_pid = %(pid)s::int,
        claimed_at = {now}, since = {now},
        deadline = {now} + make_interval(secs => {_bounded("COALESCE(l.time_limit, a.time_limit)")} + %(grace)s::float8)
    FROM asked a, me
    WHERE l.job_id = a.job_id AND l.status = 'DISPATCHED' AND l.fence = a.fence
      AND (l.expires_at IS NULL OR l.expires_at > {now})
    RETURNING l.job_id, l.fence, l.attempt, l.retry_count, l.lost_count, l.time_limit, l.expires_at
)
SELECT t.job_id, t.fence, t.attempt, t.retry_count, t.lost_count, t.time_limit, t.expires_at, j.task_id, j.alias, j.task_type, j.queue,
       j.priority, j.root_id, j.parent_id, j.group_id, j.trace_id, j.biz_id, j.payload
FROM taken t JOIN celeriac_job j ON j.seq = t.job_id"""


@lru_cache(maxsize=256)
def end(now: str, source_guard: str, wait: bool) -> str:
    """Any live status → ended. ``source_guard`` is SQL over ``l`` and is made by ``transitions`` from the arrow table.

    *wait*: for rows that somebody holds. A worker's outcome waits: skipped, it would be taken for refused. The scheduler never does.
    """
    return f"""
WITH asked AS (
    SELECT * FROM unnest(%(jobs)s::bigint[], %(fences)s::bigint[], %(outcomes)s::text[], %(results)s::text[], %(codes)s::text[],
                         %(errors)s::text[], %(lost_by)s::smallint[], %(raise_by)s::int[])
        AS a(job_id, fence, outcome, result, code, error, lost_by, raise_by)
){"" if wait else _FREE.format(guard=source_guard)}, gone AS (
    DELETE FROM celeriac_live l USING asked a{"" if wait else " JOIN free USING (job_id)"}
    WHERE l.job_id = a.job_id AND l.fence = a.fence AND {source_guard}
    RETURNING l.job_id, l.status, l.fence, l.attempt, l.retry_count, l.lost_count + a.lost_by AS lost_count, l.worker, l.claimed_at,
              a.outcome, a.result, a.code, a.error, a.raise_by
)
UPDATE celeriac_job j
SET outcome = g.outcome, ended_at = {now}, started_at = g.claimed_at, result = g.result, error_code = g.code, error = g.error,
    attempt = g.attempt, retry_count = g.retry_count, lost_count = g.lost_count, fence = g.fence + g.raise_by, worker = g.worker
FROM gone g WHERE j.seq = g.job_id
RETURNING j.seq, g.fence, g.status, g.attempt, g.retry_count"""


#: Rows that nobody holds.
_FREE = """, free AS (
    SELECT l.job_id FROM celeriac_live l JOIN asked a ON a.job_id = l.job_id AND a.fence = l.fence
    WHERE {guard} FOR UPDATE OF l SKIP LOCKED
)"""


@lru_cache(maxsize=256)
def move(now: str, source_guard: str, wait: bool) -> str:
    """Live status → another live status. Counters change by what is asked; absent values stay. *wait* as for :func:`end`."""
    return f"""
WITH asked AS (
    SELECT * FROM unnest(%(jobs)s::bigint[], %(fences)s::bigint[], %(targets)s::text[], %(delays)s::float8[],
                         %(run_ats)s::timestamptz[], %(reasons)s::text[], %(retries)s::smallint[], %(lost_by)s::smallint[],
                         %(raise_by)s::int[], %(priorities)s::smallint[], %(suspicions)s::smallint[])
        AS a(job_id, fence, target, delay, run_at, parked_reason, retry_count, lost_by, raise_by, priority, suspicion)
), before AS (
    -- Locked and read first: RETURNING shows the new row only, and the history wants the old status.
    SELECT l.job_id, l.status FROM celeriac_live l JOIN asked a ON a.job_id = l.job_id AND a.fence = l.fence
    WHERE {source_guard} FOR UPDATE OF l{"" if wait else " SKIP LOCKED"}
)
UPDATE celeriac_live l
SET status = a.target, fence = l.fence + a.raise_by, run_at = COALESCE(a.run_at, {now} + make_interval(secs => {_bounded("a.delay")}), l.run_at), since = {now},
    parked_reason = a.parked_reason, retry_count = COALESCE(a.retry_count, l.retry_count), lost_count = l.lost_count + a.lost_by,
    priority = COALESCE(a.priority, l.priority), suspicion = COALESCE(a.suspicion, l.suspicion), sent_count = 0, worker = NULL, child_pid = NULL, claimed_at = NULL, deadline = NULL,
    dispatched_at = NULL, dispatch_term = NULL
FROM asked a JOIN before b ON b.job_id = a.job_id
WHERE l.job_id = a.job_id AND l.fence = a.fence AND {source_guard}
RETURNING l.job_id, a.fence, b.status, l.attempt, l.retry_count, l.lost_count"""


#: What a message is made of; of a long payload only its length.
_STAGED = """s.job_id, s.fence, s.queue, s.priority, s.attempt, s.retry_count, j.task_id, j.alias, j.task_type, j.root_id, j.parent_id,
       j.group_id, CASE WHEN length(j.payload) <= 4096 THEN j.payload END, length(j.payload), s.worker"""


#: Not over its type's limit.
_WITHIN = """
      AND due.nth <= COALESCE((SELECT c.most FROM unnest(%(limited)s::text[], %(most)s::int[]) AS c(task_type, most)
                               WHERE c.task_type = due.task_type), 2147483647)"""

#: What runs or is on its way, by queue and type, of the queues and types that have a limit.
UNDER_WAY = """
SELECT queue, task_type, count(*) FROM celeriac_live
WHERE status IN ('RUNNING', 'DISPATCHED') AND (queue = ANY (%(queues)s::text[]) OR task_type = ANY (%(types)s::text[]))
GROUP BY queue, task_type"""


@lru_cache(maxsize=64)
def stage(now: str, limited: bool = False) -> str:
    """PENDING, RETRY → DISPATCHED for many queues at once, each up to its own window, under the leader's term.

    *limited*: at most so many of some types. What is over a type's limit is left, and what stands behind it is seen by the next pass, where
    the type is one of the paused.

    Ten probes of (queue, -priority, run_at), one a priority (and one for rescued jobs): a single range scan would walk over all
    jobs of a high priority that are scheduled for later before it came to a due one of a lower.
    """
    return f"""
WITH lease AS (
    SELECT term FROM celeriac_lease WHERE name = 'scheduler' AND term = %(term)s::bigint
), due AS (
    SELECT found.job_id, found.status{", found.task_type, row_number() OVER (PARTITION BY found.task_type) AS nth" if limited else ""}
    FROM unnest(%(queues)s::text[], %(limits)s::int[]) AS w(queue, room), LATERAL (
        SELECT head.* FROM generate_series(10, 0, -1) AS p(priority), LATERAL (
            SELECT l.job_id, l.status, l.task_type FROM celeriac_live l
            WHERE l.queue = w.queue AND l.priority = p.priority AND l.status IN ('PENDING', 'RETRY') AND l.run_at <= {now}
              AND l.suspicion = 0 AND l.task_type <> ALL (%(paused)s::text[]) AND (l.expires_at IS NULL OR l.expires_at > {now})
            ORDER BY l.run_at LIMIT w.room
        ) AS head
        LIMIT w.room
    ) AS found
), locked AS (
    SELECT l.job_id, l.status FROM celeriac_live l JOIN due USING (job_id), lease
    WHERE l.status IN ('PENDING', 'RETRY'){_WITHIN if limited else ""} FOR UPDATE OF l SKIP LOCKED
), staged AS (
    UPDATE celeriac_live l
    SET status = 'DISPATCHED', dispatched_at = {now}, since = {now}, dispatch_term = %(term)s::bigint, sent_count = 1
    FROM locked WHERE l.job_id = locked.job_id
    RETURNING l.job_id, l.fence, l.queue, l.priority, l.attempt, l.retry_count, l.worker
)
SELECT {_STAGED}
FROM staged s JOIN celeriac_job j ON j.seq = s.job_id
ORDER BY s.priority DESC, s.job_id"""


@lru_cache(maxsize=64)
def address(now: str) -> str:
    """PENDING, RETRY → DISPATCHED through the own queues of the workers that were chosen for them, under the leader's term."""
    return f"""
WITH lease AS (
    SELECT term FROM celeriac_lease WHERE name = 'scheduler' AND term = %(term)s::bigint
), locked AS (
    SELECT l.job_id, a.worker FROM celeriac_live l
    JOIN unnest(%(jobs)s::bigint[], %(fences)s::bigint[], %(workers)s::uuid[]) AS a(job_id, fence, worker)
      ON a.job_id = l.job_id AND a.fence = l.fence, lease
    WHERE l.status IN ('PENDING', 'RETRY') FOR UPDATE OF l SKIP LOCKED
), staged AS (
    UPDATE celeriac_live l
    SET status = 'DISPATCHED', worker = locked.worker, dispatched_at = {now}, since = {now}, dispatch_term = %(term)s::bigint, sent_count = 1
    FROM locked WHERE l.job_id = locked.job_id
    RETURNING l.job_id, l.fence, l.queue, l.priority, l.attempt, l.retry_count, l.worker
)
SELECT {_STAGED}
FROM staged s JOIN celeriac_job j ON j.seq = s.job_id
ORDER BY s.priority DESC, s.job_id"""


@lru_cache(maxsize=64)
def suspects_due(now: str) -> str:
    """(paused types, queues off, limit): due suspects, next to start first, with their seconds of waiting."""
    return f"""
SELECT l.job_id, l.fence, l.queue, l.suspicion, extract(epoch FROM {now} - l.run_at)::float8 FROM celeriac_live l
WHERE l.suspicion > 0 AND l.status IN ('PENDING', 'RETRY') AND l.run_at <= {now} AND l.task_type <> ALL (%(paused)s::text[])
  AND l.queue <> ALL (%(off)s::text[]) AND (l.expires_at IS NULL OR l.expires_at > {now})
ORDER BY l.priority DESC, l.run_at, l.job_id LIMIT %(limit)s::int"""


#: Each worker that consumes: its queues, free slots, the suspects aboard or on their way there, and the highest suspicion among them.
ROOMS = """
SELECT w.id, ARRAY(SELECT jsonb_array_elements_text(w.queues)), w.slots - COALESCE(b.n, 0), COALESCE(b.suspects, 0), COALESCE(b.worst, 0) FROM celeriac_worker w
LEFT JOIN (
    SELECT worker, count(*) AS n, count(*) FILTER (WHERE suspicion > 0) AS suspects, max(suspicion) AS worst
    FROM celeriac_live WHERE status = 'RUNNING' OR (suspicion > 0 AND status = 'DISPATCHED') GROUP BY worker
) AS b ON b.worker = w.id
WHERE w.ended_at IS NULL AND w.state = 'alive'"""


@lru_cache(maxsize=64)
def again(now: str) -> str:
    """DISPATCHED jobs that are to be sent again under the same fence: of older terms, or older than their delay."""
    return f"""
WITH lease AS (
    SELECT term FROM celeriac_lease WHERE name = 'scheduler' AND term = %(term)s::bigint
), stale AS (
    SELECT l.job_id FROM celeriac_live l, lease
    WHERE l.status = 'DISPATCHED' AND (%(everything)s::bool OR l.dispatch_term < %(term)s::bigint
       OR ((l.worker = ANY (%(short_workers)s::uuid[]) OR (l.queue = ANY (%(short)s::text[]) AND l.worker IS NULL))
           AND l.dispatched_at < {now} - interval '2 seconds')
       OR l.dispatched_at < {now} - make_interval(secs => LEAST(%(first)s::float8 * power(2, LEAST(l.sent_count, 12) - 1), %(most)s::float8)))
    ORDER BY l.dispatched_at LIMIT %(limit)s::int FOR UPDATE OF l SKIP LOCKED
), sent AS (
    UPDATE celeriac_live l
    SET dispatched_at = {now}, dispatch_term = %(term)s::bigint, sent_count = LEAST(l.sent_count + 1, 1000)
    FROM stale WHERE l.job_id = stale.job_id
    RETURNING l.job_id, l.fence, l.queue, l.priority, l.attempt, l.retry_count, l.worker
)
SELECT {_STAGED}
FROM sent s JOIN celeriac_job j ON j.seq = s.job_id
ORDER BY s.job_id"""


@lru_cache(maxsize=64)
def windows(now: str) -> str:
    """Per queue that has something due or dispatched: free slots of live incarnations that consume it, and what is dispatched.

    A worker's slots count once for each queue that it consumes; what runs or is dispatched there is subtracted by the caller.
    """
    return f"""
WITH busy AS (
    SELECT worker, count(*) AS n FROM celeriac_live WHERE status = 'RUNNING' GROUP BY worker
), free AS (
    SELECT q.queue, sum(GREATEST(w.slots - COALESCE(b.n, 0), 0)) AS slots, sum(w.slots) AS total
    FROM celeriac_worker w CROSS JOIN LATERAL jsonb_array_elements_text(w.queues) AS q(queue)
    LEFT JOIN busy b ON b.worker = w.id
    WHERE w.ended_at IS NULL AND w.state = 'alive'
    GROUP BY q.queue
), out AS (
    SELECT queue, count(*) AS n, min(priority) AS lowest FROM celeriac_live WHERE status = 'DISPATCHED' GROUP BY queue
), overtaking AS (
    -- Ten probes a queue at most, as in stage: a range scan would walk over what is scheduled for later.
    SELECT o.queue, (
        SELECT p.priority FROM generate_series(10, o.lowest + 1, -1) AS p(priority) WHERE EXISTS (
            SELECT 1 FROM celeriac_live l WHERE l.queue = o.queue AND l.priority = p.priority AND l.status IN ('PENDING', 'RETRY')
              AND l.suspicion = 0 AND l.run_at <= {now} AND l.task_type <> ALL (%(paused)s::text[]) AND (l.expires_at IS NULL OR l.expires_at > {now})
        ) LIMIT 1
    ) AS highest FROM out o
), waiting AS (
    -- A loose index scan over the queues that have anything waiting: DISTINCT would read the whole backlog.
    SELECT queue FROM (
        WITH RECURSIVE q AS (
            (SELECT queue FROM celeriac_live WHERE status IN ('PENDING', 'RETRY') ORDER BY queue LIMIT 1)
            UNION ALL
            SELECT (SELECT queue FROM celeriac_live WHERE status IN ('PENDING', 'RETRY') AND queue > q.queue ORDER BY queue LIMIT 1)
            FROM q WHERE q.queue IS NOT NULL
        ) SELECT queue FROM q WHERE queue IS NOT NULL
    ) AS queues
)
SELECT queue, COALESCE(free.slots, 0)::int, COALESCE(out.n, 0)::int, out.lowest, overtaking.highest, COALESCE(free.total, 0)::int,
       waiting.queue IS NOT NULL
FROM waiting FULL JOIN out USING (queue) LEFT JOIN free USING (queue) LEFT JOIN overtaking USING (queue)"""


@lru_cache(maxsize=64)
def revive(now: str) -> str:
    """DEAD_LETTER → PENDING: the Live row again, under a higher fence; retries and deaths are counted anew."""
    return f"""
WITH j AS (
    UPDATE celeriac_job
    SET outcome = NULL, ended_at = NULL, started_at = NULL, result = NULL, error_code = NULL, error = NULL, fence = fence + 1,
        payload = COALESCE(%(payload)s, payload)
    WHERE seq = %(job)s::bigint AND fence = %(fence)s::bigint AND outcome = 'DEAD_LETTER'
    RETURNING seq, queue, task_type, priority, fence, attempt
), l AS (
    INSERT INTO celeriac_live (job_id, status, queue, task_type, priority, run_at, fence, attempt, retry_count, lost_count, sent_count, time_limit,
                               since)
    SELECT seq, 'PENDING', queue, task_type, priority, {now}, fence, attempt, 0, 0, 0, %(time_limit)s::float8, {now} FROM j
    RETURNING fence
)
SELECT fence FROM l"""


@lru_cache(maxsize=64)
def close(now: str) -> str:
    """DEAD_LETTER → SUCCEEDED or CANCELLED by a person."""
    return f"""
UPDATE celeriac_job SET outcome = %(outcome)s, ended_at = {now}
WHERE seq = %(job)s::bigint AND fence = %(fence)s::bigint AND outcome = 'DEAD_LETTER'
RETURNING attempt"""
