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
    from sinkql.catalog.address import Address, ServerUrl
    from sinkql.session import Session

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def open_session(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog that the command line names, until the command ends."""
    catalog, output = context.obj
    return _opened(context, catalog), output


def open_or_empty(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog, or an empty one that is gone after the command: who only compares with one makes none."""
    from sinkql.catalog.address import address_of, project_of
    from sinkql.errors import NoCatalogError

    catalog, output = context.obj
    try:
        return _opened(context, catalog, existing=True), output
    except NoCatalogError:
        folder = context.with_resource(tempfile.TemporaryDirectory(prefix="sinkql-empty-"))
        return _opened(context, Path(folder) / "catalog.db", project=project_of(address_of(catalog))), output


def _opened(
    context: click.Context, catalog: str | Path | None, *, existing: bool = False, project: Path | None = None
) -> Session:
    gc.disable()  # what is imported stays: looking through it again and again is a tenth of a short command's time
    try:
        from sinkql.session import Session

        session = Session(catalog, existing=existing, project=project)
    finally:
        gc.enable()
    context.call_on_close(session.close)
    return session


def open_existing(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog, which must be there (SQ4115): who only looks into one makes none."""
    catalog, output = context.obj
    return _opened(context, catalog, existing=True), output


def address_in(context: click.Context) -> tuple[Address, Output]:
    """Return the address of the catalog that the command line names."""
    from sinkql.catalog.address import address_of

    named, output = context.obj
    return address_of(named), output


def names_of(*kinds: str) -> Complete:
    """Return what completes an argument with the names of items of some kinds."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from sinkql.catalog.address import address_of
        from sinkql.catalog.sqlite import item_names as of_file
        from sinkql.errors import SinkqlError, for_terminal

        given = context.params.get(parameter.name or "") or ()
        try:
            address = address_of(context.find_root().params.get("catalog"))
        except SinkqlError:
            return []  # who types sees no errors
        found = of_file.item_names(address, *kinds) if isinstance(address, Path) else _of_server(address, *kinds)
        shown = (name for name in found if name == for_terminal(name))  # a terminal would obey the others
        return [name for name in shown if name.startswith(incomplete) and name not in given]

    return complete


def _of_server(url: ServerUrl, *kinds: str) -> list[str]:
    try:
        from sinkql.catalog.postgres.item_names import item_names
    except ImportError:  # without a package that a server needs
        return []
    return item_names(url, *kinds)
