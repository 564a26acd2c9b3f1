"""`sinkql catalog`: back up, restore, check and upgrade the catalog."""

from __future__ import annotations

from pathlib import Path

import click

from sinkql.cli.context import address_in

_WRONG = 4


@click.group()
def catalog() -> None:
    """Back up, check and upgrade the catalog."""


@catalog.command(short_help="Copy the catalog.")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def backup(context: click.Context, file: Path) -> int:
    """Copy the catalog to FILE at one consistent point. Other processes may use it at the same time.

    FILE is a catalog file, also if the catalog is in Postgres. The rows of this machine's tables go to the folder
    FILE.tables. The copy does not contain the key of the secrets: back up the .key file separately.
    """
    from sinkql.catalog.backup import back_up_all
    from sinkql.catalog.secret.cipher import key_path

    address, output = address_in(context)
    tables = back_up_all(address, file)
    output.line(f"wrote {file}", file=str(file), tables=str(tables) if tables is not None else None)
    if tables is not None:
        output.note(f"wrote {tables}")
    key = key_path(address)
    if key is not None and key.exists():
        output.note(f"the key of the secrets is not in the copy: keep a copy of {key} elsewhere")
    return 0


@catalog.command(short_help="Restore the catalog from a copy.")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def restore(context: click.Context, file: Path) -> int:
    """Restore the catalog from FILE and the table rows from FILE.tables. Stop all sinks first.

    Backs up the present catalog first. Sinks continue: tables get their earlier rows by changes that sinks read. FILE
    may be a copy of another catalog, so you can move a catalog from a file to Postgres and back.
    """
    from sinkql.catalog.backup import restore

    address, output = address_in(context)
    saved = restore(address, file)
    output.line(f"restored {address}", file=str(address), kept=str(saved) if saved is not None else None)
    if saved is not None:
        output.note(f"the previous catalog is saved as {saved}")
    return 0


@catalog.command(short_help="Check the catalog.")
@click.pass_context
def verify(context: click.Context) -> int:
    """Check the catalog and all items in it. Exits with 4 if anything is wrong. Changes nothing."""
    from sinkql.catalog.catalog import Catalog
    from sinkql.catalog.verify import problems
    from sinkql.connector_api.registry import discover

    address, output = address_in(context)
    opened = Catalog(address, discover(), existing=True)
    catalog_problems = list(problems(opened))
    for problem in catalog_problems:
        place = f"{problem.item}: " if problem.item is not None else ""
        text = f"{place}[{problem.code}] {problem.message}" + (f"\n  {problem.hint}" if problem.hint else "")
        output.line(text, item=problem.item, code=problem.code, message=problem.message, hint=problem.hint)
    if not catalog_problems:
        items = sum(item.id.startswith("u") for item in opened.plans.present().values())
        output.line(f"no problems in {address} ({items} items)", file=str(address), items=items)
    return _WRONG if catalog_problems else 0


@catalog.command("upgrade", short_help="Upgrade the catalog.")
@click.pass_context
def upgrade_(context: click.Context) -> int:
    """Upgrade the catalog to this version of SinkQL, as any command does that opens an older one.

    A backup stays beside the file. In Postgres the upgrade is one transaction, and leaves no backup.
    """
    from sinkql.catalog.open_store import upgrade
    from sinkql.catalog.sqlite.schema import VERSION
    from sinkql.catalog.system import LAYOUT

    address, output = address_in(context)
    before = upgrade(address, LAYOUT)
    upgraded = f"upgraded {address} from version {before} to {VERSION}"
    done = upgraded if before < VERSION else f"{address} has version {VERSION}"
    output.line(done, file=str(address), before=before, version=VERSION)
    return 0
