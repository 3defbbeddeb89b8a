"""A process that only enqueues: ``python -m tests.support.enqueuer``. Its last line is one JSON object.

It counts the connections that each of its threads makes (Python's own audit event for ``connect``; the database's driver
is C and isn't counted), so that a test sees who speaks to the broker.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

connects: Counter[str] = Counter()


def _listen(event: str, args: Any) -> None:
    if event == "socket.connect":
        connects[threading.current_thread().name] += 1


def storm(count: int, threads: int, word: str) -> dict[str, Any]:
    """Enqueue *count* jobs from *threads* threads."""
    from tests.support import probe

    took: list[float] = []
    errors: list[str] = []

    def one(number: int) -> str:
        begun = time.perf_counter()
        try:
            return str(probe.note.delay(f"{word} {number}").id)
        except Exception as exc:  # what is asked is whether anything at all reaches the caller
            errors.append(repr(exc))
            return ""
        finally:
            took.append(time.perf_counter() - begun)

    probe.note.delay(f"{word} warm")
    begun = time.perf_counter()
    with ThreadPoolExecutor(threads, thread_name_prefix="caller") as pool:
        ids = list(pool.map(one, range(count)))
    seconds = time.perf_counter() - begun
    took.sort()
    return {
        "ids": ids,
        "errors": errors,
        "seconds": seconds,
        "p50": took[len(took) // 2],
        "p99": took[int(len(took) * 0.99)],
        "connects": dict(connects),
    }


def die_after_commit(word: str) -> None:
    """Commit one job inside a transaction, say its id, and be killed at once."""
    from django.db import transaction

    from tests.support import probe

    with transaction.atomic():
        result = probe.note.delay(word)
    os.write(1, f"{result.id}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Parse, set Django up, do it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["storm", "die"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--word", default="storm")
    asked = parser.parse_args()
    sys.addaudithook(_listen)
    import django

    django.setup()
    if asked.what == "die":
        die_after_commit(asked.word)
    print(json.dumps(storm(asked.count, asked.threads, asked.word)))


if __name__ == "__main__":
    main()
