"""The demo's mail server: ``python -m tasks.demo.smtp --port P --store FILE`` (0: a free port).

A real SMTP server, on loopback only. Prints ``ready smtp://127.0.0.1:PORT`` when it listens and appends what
it accepts to FILE, one JSON object a line: ``message_id, sender, recipients, subject, text, received_at``.
Ends on SIGTERM and SIGINT.
"""

from __future__ import annotations

import argparse
import asyncio
import email
import email.policy
import json
import signal
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session

from tasks.demo import sandbox

HOST = "127.0.0.1"


class Mailroom:
    """Accepts mail into *store*, except for the sandbox's addresses."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._greylisted: Counter[str] = Counter()

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[Any]
    ) -> str:
        """Answer to ``RCPT TO``."""
        if address.lower() == sandbox.MAIL_UNKNOWN:
            return f"550 5.1.1 <{address}> no such mailbox"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Answer to the message itself. Greylisting counts here: only now is it known which message it is."""
        content = envelope.content or b""
        message = email.message_from_bytes(
            content.encode() if isinstance(content, str) else content, policy=email.policy.default
        )
        message_id = str(message["Message-ID"])
        if sandbox.MAIL_GREYLISTED in map(str.lower, envelope.rcpt_tos):
            self._greylisted[message_id] += 1
            if self._greylisted[message_id] <= sandbox.FLAKY_CALLS:
                return "451 4.7.1 greylisted, try again"
        body = message.get_body(("plain",))
        self._keep(
            {
                "message_id": message_id,
                "sender": envelope.mail_from,
                "recipients": envelope.rcpt_tos,
                "subject": str(message["Subject"]),
                "text": body.get_content().replace("\r\n", "\n") if body else "",
                "received_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            }
        )
        return "250 2.0.0 accepted"

    def _keep(self, mail: dict[str, Any]) -> None:
        with self._store.open("a", encoding="utf-8") as store:
            store.write(json.dumps(mail) + "\n")


async def serve(port: int, store: Path) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    mailroom = Mailroom(store)
    # A host name is given because aiosmtpd would look up its own, which takes seconds where there is no
    # resolver.
    server = await loop.create_server(lambda: SMTP(mailroom, hostname="localhost", loop=loop), HOST, port)
    print(f"ready smtp://{HOST}:{server.sockets[0].getsockname()[1]}", flush=True)
    await stop.wait()
    # Not wait_closed(): it waits for clients that keep their connection open.
    server.close()


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m tasks.demo.smtp", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="port on loopback; 0 takes a free one")
    parser.add_argument("--store", type=Path, required=True, help="file that accepted mail is appended to")
    options = parser.parse_args()
    asyncio.run(serve(options.port, options.store))


if __name__ == "__main__":
    main()
