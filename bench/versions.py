"""What was measured with: figures without it mean nothing."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from django.db import connection

from bench.ground import Ground

_DISTRIBUTIONS = {"django": "Django", "celery": "celery", "kombu": "kombu", "redis-py": "redis", "psycopg": "psycopg"}


def versions(ground: Ground) -> dict[str, str]:
    """Names and versions of everything that has a part in the figures."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        (postgres,) = cursor.fetchone()
    with ground.redis() as broker:
        server = broker.info("server")
    kind = "valkey" if "valkey_version" in server else "redis"
    return {
        "python": platform.python_version(),
        **{name: version(distribution) for name, distribution in _DISTRIBUTIONS.items()},
        "postgres": str(postgres),
        kind: str(server[f"{kind}_version"]),
        "cpu": f"{_model()}, {os.cpu_count()} cores",
    }


def _model() -> str:
    described = Path("/proc/cpuinfo")  # Linux; elsewhere the standard library's word has to do
    for line in described.read_text().splitlines() if described.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
