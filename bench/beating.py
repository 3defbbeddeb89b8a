"""So many incarnations that only beat: `python -m bench.beating COUNT`. Says so when all do, and ends with SIGTERM.

Each has its own session, lock and row, as a worker has; what it has not is a pool and jobs.
"""

import os
import signal
import socket
import sys
import threading
import uuid

import django


def main(count: int) -> None:
    """Beat until told to stop."""
    django.setup()
    from celeriac.fleet.heartbeat import Card, Heartbeat, Vitals

    vitals = Vitals(held=0, slots=8, free=8, rss=100 * 2**20, queues=["beating"], state="alive")
    hearts = [
        Heartbeat(
            Card(uuid.uuid4(), f"beating{number}@{os.getpid()}", socket.gethostname(), os.getpid(), "prefork", [], {}),
            lambda: vitals,
            on_given_up=lambda: None,
            on_drain=lambda wished: None,
        )
        for number in range(count)
    ]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for heart in hearts:
        heart.start()
    if not all(heart.wait_until_registered(60) for heart in hearts):
        raise SystemExit("not all of them beat within a minute")
    print(f"beating: {count}", flush=True)
    stop.wait()
    for heart in hearts:
        heart.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
