"""PostgreSQL: how jobs ended, as rows of django-celery-results' ``TaskResult``."""

from __future__ import annotations

from typing import Final

#: Ids that don't fit its column have no row. What was not there when a job ended (its worker's row) is NULL.
WRITE: Final = """
INSERT INTO django_celery_results_taskresult AS r
    (task_id, task_name, status, worker, content_type, content_encoding, result, traceback, meta, date_created, date_started, date_done)
SELECT COALESCE(j.alias, j.task_id::text), left(j.task_type, 255), e.status, left(w.hostname, 100), 'application/json', 'utf-8',
       CASE e.status WHEN 'SUCCESS' THEN COALESCE(j.result, 'null')
                     WHEN 'REVOKED' THEN '{"exc_type": "TaskRevokedError", "exc_message": ["cancelled"], "exc_module": "celery.exceptions"}'
                     ELSE json_build_object('exc_type', regexp_replace(k.kind, '^.*\\.', ''),
                                            'exc_message', json_build_array(substr(j.error, length(k.kind) + 3)),
                                            'exc_module', CASE WHEN strpos(k.kind, '.') > 0 THEN regexp_replace(k.kind, '\\.[^.]*$', '')
                                                               ELSE 'builtins' END)::text END,
       CASE e.status WHEN 'FAILURE' THEN (SELECT v.traceback FROM celeriac_errorevent v WHERE v.job_id = j.seq ORDER BY v.id DESC LIMIT 1) END,
       '{"children": []}', j.created_at, j.started_at, j.ended_at
FROM celeriac_job j
CROSS JOIN LATERAL (SELECT CASE j.outcome WHEN 'SUCCEEDED' THEN 'SUCCESS' WHEN 'CANCELLED' THEN 'REVOKED' ELSE 'FAILURE' END AS status) e
CROSS JOIN LATERAL (SELECT split_part(COALESCE(j.error, ''), ': ', 1) AS kind) k
LEFT JOIN celeriac_worker w ON w.id = j.worker
WHERE j.seq = ANY (%(jobs)s::bigint[]) AND j.outcome IS NOT NULL AND length(COALESCE(j.alias, '')) <= 255
ORDER BY j.seq
ON CONFLICT (task_id) DO UPDATE
SET task_name = EXCLUDED.task_name, status = EXCLUDED.status, worker = EXCLUDED.worker, content_type = EXCLUDED.content_type,
    content_encoding = EXCLUDED.content_encoding, result = EXCLUDED.result, traceback = EXCLUDED.traceback, meta = EXCLUDED.meta,
    date_started = EXCLUDED.date_started, date_done = EXCLUDED.date_done
RETURNING r.id"""

#: A job that lives again has not ended.
REMOVE: Final = """
DELETE FROM django_celery_results_taskresult r USING celeriac_job j
WHERE j.seq = ANY (%(jobs)s::bigint[]) AND r.task_id = COALESCE(j.alias, j.task_id::text)
RETURNING r.id"""
