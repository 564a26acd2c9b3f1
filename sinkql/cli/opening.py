"""A command's context → the session of its catalog, and what to print with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sinkql.cli.output import Output

if TYPE_CHECKING:
    from sinkql.session import Session


def open_session(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog that the command line names, until the command ends."""
    from sinkql.session import Session

    catalog, output = context.obj
    session = Session(catalog)
    context.call_on_close(session.close)
    return session, output
