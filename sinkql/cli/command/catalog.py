"""`sinkql catalog`: the catalog file → a copy of it, and back, what is wrong in it, the same brought up to date."""

from __future__ import annotations

from pathlib import Path

import click

from sinkql.cli.context import catalog_of

_WRONG = 4


@click.group()
def catalog() -> None:
    """Back up, restore, check and upgrade the catalog file."""


@catalog.command(short_help="Copy the catalog.")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def backup(context: click.Context, file: Path) -> int:
    """Copy the catalog to FILE, consistent as of one moment; other processes may use it meanwhile.

    The rows of tables are copied to the folder FILE.tables. The key of the secrets is not in the copy: back up the .key
    file separately.
    """
    from sinkql.catalog.file.backup import back_up_all

    path, output = catalog_of(context)
    tables = back_up_all(path, file)
    output.line(f"wrote {file}", file=str(file), tables=str(tables) if tables is not None else None)
    if tables is not None:
        output.note(f"wrote {tables}")
    return 0


@catalog.command(short_help="Put a copy of the catalog back.")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def restore(context: click.Context, file: Path) -> int:
    """Put FILE, and the rows of tables in FILE.tables, back as the catalog; no sink may be running.

    What was there is backed up first. Sinks go on: tables get their earlier rows by changes that sinks see.
    """
    from sinkql.catalog.file.backup import restore
    from sinkql.session.session import catalog_file

    named, output = context.obj
    path = catalog_file(named)
    kept = restore(path, file)
    output.line(f"restored {path}", file=str(path), kept=str(kept) if kept is not None else None)
    if kept is not None:
        output.note(f"what was there is in {kept}")
    return 0


@catalog.command(short_help="Check the catalog file.")
@click.pass_context
def verify(context: click.Context) -> int:
    """Check the catalog file and all items in it. Exits with 4 if anything is wrong. Changes nothing."""
    from sinkql.catalog.catalog import Catalog
    from sinkql.catalog.verify import problems
    from sinkql.extension.registry import discover

    path, output = catalog_of(context)
    opened = Catalog(path, discover())
    found = list(problems(opened))
    for each in found:
        place = f"{each.item}: " if each.item is not None else ""
        text = f"{place}[{each.code}] {each.message}" + (f"\n  {each.hint}" if each.hint else "")
        output.line(text, item=each.item, code=each.code, message=each.message, hint=each.hint)
    if not found:
        items = sum(each.id.startswith("u") for each in opened.plans.present().values())
        output.line(f"no problems in {path} ({items} items)", file=str(path), items=items)
    return _WRONG if found else 0


@catalog.command(short_help="Upgrade the catalog file.")
@click.pass_context
def upgrade(context: click.Context) -> int:
    """Upgrade the catalog file to this version of SinkQL, as any command does that opens an older file.

    A backup stays beside the file.
    """
    from sinkql.catalog.file.database import Database
    from sinkql.catalog.file.layout import VERSION
    from sinkql.catalog.file.sqlite_file import version_of
    from sinkql.catalog.system import LAYOUT

    path, output = catalog_of(context)
    before = version_of(path)
    Database(path, LAYOUT)
    upgraded = f"upgraded {path} from version {before} to {VERSION}"
    done = upgraded if before < VERSION else f"{path} has version {VERSION}"
    output.line(done, file=str(path), before=before, version=VERSION)
    return 0
