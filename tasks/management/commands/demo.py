"""`manage.py demo`: the whole product with a small shop's jobs, on this machine, with nothing set up beforehand."""

import os
import random
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from tasks.demo import children, signals
from tasks.demo.postgres import NoPostgres
from tasks.demo.redis_server import NoRedis
from tasks.demo.services import Services

INNER_GRACE = 40.0  # seconds that the inner process has for stopping everything


class Command(BaseCommand):
    """Runs in two processes: the outer one owns PostgreSQL and Redis, the inner one has Django on them.

    When the environment names both already there is nothing to own and the inner part runs at once, which is also how
    the outer process starts the inner one.
    """

    help = "Run the whole product with a small shop's jobs, failures included; Ctrl-C stops all of it."
    requires_system_checks = ()  # there may be no database yet to check anything on

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--orders", type=int, default=60, help="orders to place at once (default: 60)")
        parser.add_argument("--seed", type=int, help="what orders and their failures follow from (default: a new one)")
        parser.add_argument(
            "--exit", action="store_true", help="headless: end when every job has, the summary as last line"
        )
        parser.add_argument(
            "--limit", type=float, default=900, help="seconds after which --exit waits no longer (default: 900)"
        )
        parser.add_argument("--no-flower", action="store_true", help="leave Flower out")
        parser.add_argument("--no-web", action="store_true", help="leave the admin out")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the demo. The exit status is 0 for a clean headless run, and for a Ctrl-C where one is expected."""
        with signals.interrupting():
            try:
                if os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL"):
                    status = self._inner(options)
                else:
                    status = self._outer()
            except KeyboardInterrupt:
                status = 130 if options["exit"] else 0
        sys.exit(status)

    def _outer(self) -> int:
        try:
            with Services() as services:
                inner = children.start([sys.executable, *sys.argv], log=None, env={**os.environ, **services.env()})
                try:
                    return inner.wait()
                finally:
                    with signals.held_off():
                        children.stop(inner, grace=INNER_GRACE, whole_group=True)
        except (NoPostgres, NoRedis) as missing:
            raise CommandError(str(missing)) from None

    def _inner(self, options: dict[str, Any]) -> int:
        # Imported here for the models in it: the outer process has no database that they could look at.
        from tasks.demo import show
        from tasks.demo.stack import NotReady

        wish = show.Wish(
            orders=options["orders"],
            seed=random.randrange(1_000_000) if options["seed"] is None else options["seed"],
            headless=options["exit"],
            limit=options["limit"],
            web=not options["no_web"],
            flower=not options["no_flower"],
        )
        folder = Path(settings.BASE_DIR) / "var" / "demo" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        try:
            return show.run(wish, folder, self.stderr.write)
        except NotReady as error:
            raise CommandError(str(error)) from None
