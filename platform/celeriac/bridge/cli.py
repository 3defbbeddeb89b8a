"""``celery -A app scheduler``: a command of Celery's own command line (entry point ``celery.commands``)."""

from __future__ import annotations

import click


@click.command()
@click.option("-l", "--loglevel", default="INFO", help="Logging level.")
@click.option("--seat", type=int, hidden=True, help="Embedded: the seat that was booked for it.")
@click.option("--parent", type=int, hidden=True, help="Embedded: the worker that it ends with.")
@click.pass_context
def scheduler(ctx: click.Context, loglevel: str, seat: int | None, parent: int | None) -> None:
    """Start Celeriac's scheduler. Two may run: one leads, the other takes over within seconds."""
    from celeriac.bridge.app import Celery

    app = ctx.obj.app
    if not isinstance(app, Celery):
        raise click.UsageError(
            f"{app!r} is no celeriac.Celery. Use `from celeriac import Celery` where the app is made."
        )
    app.loader.import_default_modules()  # sets Django up, so that models can be imported
    app.finalize()
    from celeriac.bridge.bootsteps import die_with
    from celeriac.bridge.scheduler import run_until_signalled

    if parent is not None:
        die_with(parent)
    app.log.setup(loglevel=loglevel.upper())
    click.echo("celeriac scheduler: ready")
    run_until_signalled(app, seat)
