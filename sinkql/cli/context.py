"""A command's context → the catalog that the command line names: opened, or only looked into for completion."""

from __future__ import annotations

import gc
import tempfile
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
    return _opened(context, catalog), output


def open_or_empty(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog, or an empty one that is gone after the command: who only compares with one makes none."""
    from sinkql.session.session import catalog_file

    catalog, output = context.obj
    if not catalog_file(catalog).exists():
        folder = context.with_resource(tempfile.TemporaryDirectory(prefix="sinkql-empty-"))
        catalog = Path(folder) / "catalog.db"
    return _opened(context, catalog), output


def _opened(context: click.Context, catalog: str | Path | None) -> Session:
    gc.disable()  # what is imported stays: looking through it again and again is a tenth of a short command's time
    try:
        from sinkql.session import Session

        session = Session(catalog)
    finally:
        gc.enable()
    context.call_on_close(session.close)
    return session


def open_existing(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog, which must be there (SQ4115): who only looks into one makes none."""
    catalog_of(context)
    return open_session(context)


def catalog_of(context: click.Context) -> tuple[Path, Output]:
    """Return the catalog file that the command line names, which must be there (SQ4115)."""
    from sinkql.errors import SinkqlError
    from sinkql.session.session import catalog_file

    named, output = context.obj
    path = catalog_file(named)
    if not path.exists():
        hint = "Run it in the folder where the pipeline was created, or name its catalog with --catalog FILE."
        raise SinkqlError("SQ4115", f'catalog file "{path}" does not exist', hint=hint)
    return path, output


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
