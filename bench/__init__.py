"""Celeriac beside plain Celery, on the same servers in the same minutes. `README.md` begins with the caveats."""
