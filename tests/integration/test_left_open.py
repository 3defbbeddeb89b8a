"""What a task body leaves open is rolled back before anything else is written, also what Django knows nothing of."""

from __future__ import annotations

import pytest
from django.db import connection

from celeriac.run.run import roll_back_what_was_left_open

pytestmark = pytest.mark.django_db(transaction=True)


def begin_as_plain_sql() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")


def autocommit_off_in_the_driver() -> None:
    connection.connection.autocommit = False
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def autocommit_off_in_django() -> None:
    connection.set_autocommit(False)


def broken_transaction() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        with pytest.raises(Exception, match="division by zero"):
            cursor.execute("SELECT 1 / 0")


@pytest.mark.parametrize(
    "leave_open", [begin_as_plain_sql, autocommit_off_in_the_driver, autocommit_off_in_django, broken_transaction]
)
def test_the_next_statement_commits_by_itself(leave_open: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE left_open (x int)")
    try:
        leave_open()  # type: ignore[operator]
        if leave_open is begin_as_plain_sql:
            connection.cursor().execute("INSERT INTO left_open VALUES (1)")
        roll_back_what_was_left_open()
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM left_open")
            assert cursor.fetchone() == (0,)
            assert connection.connection.pgconn.transaction_status == 0
            assert connection.connection.autocommit
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE left_open")


def test_a_connection_that_was_left_in_order_is_kept() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    kept = connection.connection
    roll_back_what_was_left_open()
    assert connection.connection is kept
