"""The benches run and print what they promise. How fast anything is, no test says."""

import json
import subprocess
import sys

import pytest

from bench.pairs import interleaved, interval, percentile
from bench.report import Row, line, table
from tests.support.fleet import ROOT

ROWS = {
    "enqueue": [("one", "celery-redis"), ("bytes", None)],
    "drain": [
        ("native", "celery-django-results"),
        ("native", "celery-django-results-reuse"),
        ("native", "celery-redis"),
    ],
    "latency": [("p50", "celery-django-results"), ("p99", "celery-django-results")],
    "recovery": [
        ("killed-tree", "celery-redis"),
        ("killed-tree", "celery-redis-tuned"),
        ("killed-tree-worst", None),
        ("killed-child", "celery-redis"),
        ("killed-child", "celery-redis-rejecting"),
        ("killed-child-worst", None),
        ("killed-scheduler", None),
        ("killed-scheduler-worst", None),
    ],
}
FIELDS = {"what", "reference", "ours", "theirs", "ratio", "low", "high", "unit"}
VERSIONS = {"python", "django", "celery", "kombu", "redis-py", "psycopg", "postgres", "cpu"}
LIMIT = 240  # seconds
# Jobs that are to run at once, in eight slots.
JOBS = {"recovery": "4"}


@pytest.mark.slow
@pytest.mark.parametrize("bench", ROWS)
def test_a_bench_prints_one_json_object_with_its_rows(bench: str) -> None:
    command = [
        sys.executable,
        "-m",
        f"bench.{bench}",
        "--json",
        "--short",
        "--pairs",
        "1",
        "--jobs",
        JOBS.get(bench, "20"),
    ]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    (only,) = done.stdout.splitlines()
    printed = json.loads(only)

    assert printed["bench"] == bench
    assert [(row["what"], row["reference"]) for row in printed["rows"]] == ROWS[bench]
    assert printed["versions"].keys() - {"redis", "valkey"} == VERSIONS
    for row in printed["rows"]:
        assert row.keys() - {"note"} == FIELDS
        assert row["ours"] > 0
        compared = {row[key] is None for key in ("theirs", "ratio", "low", "high")}
        # Where a reference has no answer, a note says why.
        assert compared == {row["reference"] is None} or (compared == {True} and row["note"])
        assert f"`{row['what']}`" in (ROOT / "bench" / "README.md").read_text()


def test_a_report_is_a_table_for_people_and_a_line_for_programs() -> None:
    compared = Row.of_pairs("one", "celery-redis", [2.0, 3.0, 4.0], [1.0, 2.0, 2.0], "jobs/s")
    rows = [compared, Row.alone("bytes", 700.0, "bytes")]
    assert "2.00  1.50 to 2.00" in table("enqueue", rows, pairs=3)
    assert json.loads(line("enqueue", rows, {"python": "3"}))["rows"][0]["ratio"] == 2.0


def test_a_reference_without_an_answer_is_null_and_has_a_note() -> None:
    rows = [Row.unanswered("killed-tree", "celery-redis", 0.9, "s", "not within 20 s")]
    (shown,) = json.loads(line("recovery", rows, {}))["rows"]
    assert (shown["theirs"], shown["ratio"], shown["note"]) == (None, None, "not within 20 s")
    assert "killed-tree, celery-redis: not within 20 s" in table("recovery", rows, pairs=1)


def test_sides_take_turns_in_going_first() -> None:
    order: list[str] = []
    rounds = list(interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3))
    assert "".join(order) == "abbaab"
    assert [sorted(found) for found in rounds] == [["a", "b"]] * 3


def test_the_interval_of_a_median_leaves_out_what_chance_would_not_put_on_one_side() -> None:
    # Nine tosses: none or all heads in 1 of 256, at most one of a kind in 10 of 256; at most two is too likely.
    assert interval([9, 8, 7, 6, 5, 4, 3, 2, 1]) == (2, 8)
    assert interval([6, 5, 4, 3, 2, 1]) == (1, 6)
    assert interval([3, 1, 2]) == (1, 3)
    assert interval([1]) == (1, 1)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile(list(range(1, 201)), 99) == 198
    assert percentile([5], 99) == 5
