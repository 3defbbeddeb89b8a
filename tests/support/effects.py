"""What jobs did, in a place that the platform neither owns nor knows: a table, and a file for when there is no database."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import datetime
from pathlib import Path

from django.db import connection


def create() -> None:
    """Make the table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE probe_effect (id bigserial PRIMARY KEY, job text NOT NULL, word text NOT NULL, pid int NOT NULL, "
            "at timestamptz NOT NULL DEFAULT clock_timestamp())"
        )


def row(job: str, word: str) -> None:
    """One execution of *job*."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO probe_effect (job, word, pid) VALUES (%s, %s, %s)", [job, word, os.getpid()])


def line(job: str, word: str) -> None:
    """One execution of *job*, on paper. A short line appended in one write never mixes with another's."""
    fd = os.open(_paper(Path(os.environ["PROBE_FOLDER"])), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, json.dumps([job, word]).encode() + b"\n")
    finally:
        os.close(fd)


def words() -> list[str]:
    """What was left in the table, in order."""
    return [word for _, word in rows()]


def count(word: str) -> int:
    """How many executions left *word*."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM probe_effect WHERE word = %s", [word])
        return int(cursor.fetchone()[0])


def by_job() -> Counter[str]:
    """Executions of each job."""
    return Counter(job for job, _ in rows())


def since(moment: datetime) -> list[tuple[str, float]]:
    """Words left after *moment* of the database's clock, with the seconds that had passed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT word, extract(epoch FROM at - %s)::float8 FROM probe_effect WHERE at > %s ORDER BY id",
            [moment, moment],
        )
        return [(word, seconds) for word, seconds in cursor.fetchall()]


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from the first effect *earlier* to the last *later*."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM (SELECT max(at) FROM probe_effect WHERE word = %s) "
            "- (SELECT min(at) FROM probe_effect WHERE word = %s))::float8",
            [later, earlier],
        )
        return float(cursor.fetchone()[0])


def on_paper(folder: Path) -> Counter[str]:
    """Executions of each job that were written to the file."""
    paper = _paper(folder)
    lines = paper.read_text().splitlines() if paper.exists() else []
    return Counter(json.loads(each)[0] for each in lines)


def lines(folder: Path) -> list[tuple[str, str]]:
    """Job and word of every line of the file, in order."""
    paper = _paper(folder)
    found = paper.read_text().splitlines() if paper.exists() else []
    return [(job, word) for job, word in map(json.loads, found)]


def now() -> datetime:
    """The database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
        return moment


def rows() -> list[tuple[str, str]]:
    """Job and word of every execution, in order."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT job, word FROM probe_effect ORDER BY id")
        return list(cursor.fetchall())


def _paper(folder: Path) -> Path:
    return folder / "effects.jsonl"
