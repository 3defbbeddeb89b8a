"""Fixtures of the whole suite.

The services' addresses are reserved before Django reads its settings; the servers themselves start with the first test
that needs them, so unit and architecture tests run on machines that have none.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Before any import that may lead to Django's settings.
os.environ["DJANGO_SETTINGS_MODULE"] = "settings.test"
for _name in [name for name in os.environ if name.startswith("CELERIAC_")]:
    del os.environ[_name]  # a developer's own overrides are no business of the tests

from tasks.demo.services import Services  # noqa: E402

SERVICES = Services(fsync=False)
_FOLDER = tempfile.TemporaryDirectory(prefix="celeriac-tests-")
os.environ.update(SERVICES.env())
# What one session spools another must not replay.
os.environ["CELERIAC_SPOOL_DIR"] = str(Path(_FOLDER.name) / "spool")

import django  # noqa: E402
from django.conf import settings  # noqa: E402

assert not settings.configured, "something read Django's settings before the services had addresses"
# Here and not in a hook: the conftest files below this one import models, and are loaded before any hook is called.
django.setup()

import pytest  # noqa: E402
import pytest_django  # noqa: E402
import redis  # noqa: E402

from tests.support import databases  # noqa: E402
from tests.support.product import Product  # noqa: E402


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    SERVICES.stop()
    _FOLDER.cleanup()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cheap tests first: a failure is seen sooner."""
    order = ["unit", "architecture", "integration", "migration", "acceptance", "browser"]

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return order.index(folder) if folder in order else len(order)

    items.sort(key=rank)


@pytest.fixture(scope="session")
def services() -> Services:
    """A real PostgreSQL and a real Redis, up until the session ends."""
    return SERVICES.start()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(services: Services) -> None:
    """Have the servers up before pytest-django makes its test database."""


@pytest.fixture(scope="session")
def template_database(services: Services) -> Iterator[str]:
    """The name of a migrated database that nobody is connected to, to be copied."""
    database = databases.name("template")
    databases.migrate(services.create_database(database))
    yield database
    services.drop_database(database)


@pytest.fixture(scope="module")
def product(
    services: Services,
    template_database: str,
    django_db_blocker: pytest_django.DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Product]:
    """The product on an empty database and an empty broker; this process's models look at that database too."""
    folder = tmp_path_factory.mktemp("product")
    with redis.Redis.from_url(services.redis_url) as broker:
        broker.flushall()
    with django_db_blocker.unblock(), databases.fresh(services, template_database) as url:
        env = {
            **services.env(),
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "settings.test",
            "DJANGO_SECRET_KEY": settings.SECRET_KEY,
            "CELERIAC_SPOOL_DIR": str(folder / "spool"),
            # Tests start the schedulers they want, and kill them one by one; those of the embedded one say otherwise.
            "CELERIAC_EMBED_SCHEDULER": "false",
        }
        yield Product(services, url, env, folder)
