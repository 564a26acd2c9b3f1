"""`sinkql catalog`: the catalog file → a copy of it, what is wrong in it, the same brought up to date."""

from __future__ import annotations

from pathlib import Path

import click

from sinkql.cli.output import Output

_WRONG = 4


@click.group()
def catalog() -> None:
    """Back up, check and upgrade the catalog file."""


@catalog.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def backup(context: click.Context, file: Path) -> int:
    """Copy the catalog into FILE, as it is at one moment; other processes may use it meanwhile.

    The rows of tables are copied into the folder FILE.tables; to restore, put it back as the folder tables beside the
    catalog file. The key of secrets is not in the copy: keep the .key file elsewhere.
    """
    from sinkql.catalog.backup import back_up_all

    path, output = _file(context)
    tables = back_up_all(path, file)
    output.line(f"wrote {file}", file=str(file), tables=str(tables) if tables is not None else None)
    if tables is not None:
        output.note(f"wrote {tables}")
    return 0


@catalog.command()
@click.pass_context
def verify(context: click.Context) -> int:
    """Check the file and all that is in it; exit with 4 if something is wrong. Changes nothing."""
    from sinkql.catalog.store import Catalog
    from sinkql.catalog.verify import problems
    from sinkql.connector.registry import discover

    path, output = _file(context)
    opened = Catalog(path, discover())
    found = list(problems(opened))
    for each in found:
        place = f"{each.item}: " if each.item is not None else ""
        text = f"{place}[{each.code}] {each.message}" + (f"\n  {each.hint}" if each.hint else "")
        output.line(text, item=each.item, code=each.code, message=each.message, hint=each.hint)
    if not found:
        items = sum(entry.id.startswith("u") for entry in opened.entries().values())
        output.line(f"nothing is wrong in {path}: {items} items", file=str(path), items=items)
    return _WRONG if found else 0


@catalog.command()
@click.pass_context
def upgrade(context: click.Context) -> int:
    """Bring the file to this version, as the first command does that opens it; a backup of before stays beside it."""
    from sinkql.catalog.database import VERSION, Database, version_of
    from sinkql.catalog.system import create_views

    path, output = _file(context)
    before = version_of(path)
    Database(path, create_views)
    upgraded = f"upgraded {path} from version {before} to {VERSION}"
    done = upgraded if before < VERSION else f"{path} has version {VERSION}"
    output.line(done, file=str(path), before=before, version=VERSION)
    return 0


def _file(context: click.Context) -> tuple[Path, Output]:
    """Return the catalog file, which must be there: SQ4115."""
    from sinkql.errors import SinkqlError
    from sinkql.session.session import catalog_file

    named, output = context.obj
    path = catalog_file(named)
    if not path.exists():
        raise SinkqlError("SQ4115", f'there is no catalog file "{path}"', hint="Name it with --catalog FILE.")
    return path, output
