"""Sub-commands of ``manage.py celeriac``, one a module: ``HELP``, ``arguments(parser)``, ``run(options, out) -> exit code``."""
