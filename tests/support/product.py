"""The product as an acceptance test meets it: services, an empty database, and processes on demand."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from tasks.demo.services import Services
from tests.support.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Product:
    """What an acceptance test is given.

    `env` is the environment that the product's processes find their services by; `folder` takes logs and spools.
    """

    services: Services
    database_url: str
    env: dict[str, str]
    folder: Path

    @contextmanager
    def fleet(self, *, app: str = "tasks", env: dict[str, str] | None = None) -> Iterator[Fleet]:
        """Give a fleet that is gone when the block ends."""
        with Fleet({**self.env, **(env or {})}, self.folder / "logs", app=app) as fleet:
            yield fleet

    def redis(self) -> "redis.Redis":
        """Return a client of the broker."""
        return redis.Redis.from_url(self.services.redis_url)
