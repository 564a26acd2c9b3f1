"""A command's context → the catalog that the command line names: opened, or only looked into for completion."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sinkql.cli.output import Output

if TYPE_CHECKING:
    from sinkql.session import Session

_CATALOG = Path(".sinkql") / "catalog.db"

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def open_session(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog that the command line names, until the command ends."""
    catalog, output = context.obj
    gc.disable()  # what is imported stays: looking through it again and again is a tenth of a short command's time
    try:
        from sinkql.session import Session

        session = Session(catalog)
    finally:
        gc.enable()
    context.call_on_close(session.close)
    return session, output


def names_of(*kinds: str) -> Complete:
    """Return what completes an argument with the names of items of some kinds."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from sinkql.catalog.file.item_names import item_names

        given = context.params.get(parameter.name or "") or ()
        found = item_names(_catalog(context), *kinds)
        return [name for name in found if name.startswith(incomplete) and name not in given]

    return complete


def _catalog(context: click.Context) -> Path:
    """Return the catalog file that the command line names so far."""
    given = context.find_root().params.get("catalog")
    if given is None:
        return _CATALOG
    path = Path(str(given).removeprefix("sqlite:///"))
    return path / _CATALOG if path.is_dir() else path
