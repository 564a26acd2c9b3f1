"""`sinkql preview`, `subscribe`, `shell`: show rows and changes of items, and open the shell."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sinkql.catalog.address import project_of
from sinkql.cli.context import address_in, names_of, of_server, open_existing, open_session
from sinkql.cli.output import Output
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.script.redaction import mask
from sinkql.script.split import read_script
from sinkql.shell.setting import FORMATS, RowFormat

if TYPE_CHECKING:
    from sinkql import ast
    from sinkql.session import Result, Session


@click.command(short_help="Show rows of a source, view, table or sink.")
@click.argument("item", shell_complete=names_of("SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "SINK"))
@click.option("--limit", type=click.IntRange(min=0), default=10, show_default=True, help="How many rows to show.")
@click.option(
    "-f",
    "--file",
    "file",
    type=click.Path(exists=False, path_type=Path),
    help="Read ITEM from this script instead of the catalog.",
)
@of_server("Take ITEM, a table or topic, from this server")
@click.option("--types", is_flag=True, help="Show the columns and their types before the rows.")
@click.pass_context
def preview(
    context: click.Context,
    item: str,
    limit: int,
    file: Path | None,
    address: str | None,
    registry: str | None,
    types: bool,
) -> int:
    """Show the present rows of ITEM: a source, view or table, or the rows that a sink has written.

    With --file, the script runs in a temporary catalog, and a sink shows the rows that it would write.

    Reads the present contents of topics and tables of other systems, and leaves nothing there: no slot, no group.
    """
    if address is not None:
        from sinkql.session.scaffold import preview_server

        return _print(context.obj[1], preview_server(address, item, limit, registry=registry), types=types)
    if file is not None:
        return _from_script(context, file, item, limit, types=types)
    session, output = open_existing(context)
    return _show(session, output, item, limit, types=types)


def _show(session: Session, output: Output, item: str, limit: int, *, types: bool) -> int:
    return _print(output, session.preview(item, limit=limit), types=types)


def _print(output: Output, result: Result, *, types: bool) -> int:
    if types and result.types:  # relations of the system catalog have none
        pairs = zip(result.columns, map(str, result.types), strict=True)
        output.table(("column", "type"), list(pairs))
    output.table(result.columns, result.rows)
    for notice in result.notices:
        output.notice(notice)
    return 0


def _from_script(context: click.Context, path: Path, item: str, limit: int, *, types: bool) -> int:
    from sinkql import ast
    from sinkql.session import Session

    address, output = address_in(context)
    text = read_script(path)
    relations: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="sinkql-preview-") as folder,
        Session(Path(folder) / "catalog.db", project=project_of(address)) as session,
    ):
        words = session.catalog.registry.keywords
        masked = mask(text, words)
        try:
            for statement in parse(text, words):
                if isinstance(statement, ast.CreateSink) and statement.name is not None:
                    relations[_spelled(statement.name)] = _spelled(statement.relation)
                elif not isinstance(statement, ast.CreateSink):
                    session.run_statement(statement)
        except SinkqlError as error:
            raise masked.cover(error.within(path=str(path), text=masked.text)) from error.__cause__
        return _show(session, output, relations.get(item, item), limit, types=types)


def _spelled(name: ast.Name) -> str:
    """Return a name as written on the command line."""
    from sinkql.planner.name import qualified_name

    return qualified_name(*(part.value for part in name.parts))


@click.command(short_help="Follow the changes of a materialized view.")
@click.argument("view", shell_complete=names_of("MATERIALIZED VIEW"))
@click.option("--no-snapshot", is_flag=True, help="Print only changes, not the present rows.")
@click.option("--progress", is_flag=True, help="Also print the times up to which all changes were printed.")
@click.pass_context
def subscribe(context: click.Context, view: str, no_snapshot: bool, progress: bool) -> int:
    """Print the rows of VIEW and then its committed changes, one JSON object a line, until Ctrl-C.

    The view needs a separate job. The column mz_diff is 1 for an added row and -1 for a removed one, or a multiple.
    """
    session, output = open_existing(context)
    from sinkql.planner.name import as_name
    from sinkql.printer.clause import name

    snapshot, with_progress = str(not no_snapshot).lower(), str(progress).lower()
    text = f"SUBSCRIBE TO {name(as_name(view))} WITH (SNAPSHOT = {snapshot}, PROGRESS = {with_progress});"
    try:
        (result,) = session.execute(text)
    except SinkqlError as error:
        raise SinkqlError(error.code, error.message, detail=error.detail, hint=error.hint) from None
    for notice in result.notices:
        output.notice(notice)
    assert result.stream is not None
    output.lines(result.columns, result.stream, result.types)
    return 0


@click.command(short_help="Open the interactive shell.")
@click.argument("files", nargs=-1, type=click.Path(exists=False, path_type=Path))
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run SQL, then leave. May be repeated.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True, help="Format of rows."
)
@click.option("--keep-going", is_flag=True, help="Continue after an error. The exit code is that of the first error.")
@click.pass_context
def shell(
    context: click.Context, files: tuple[Path, ...], commands: tuple[str, ...], format_: RowFormat, keep_going: bool
) -> int:
    """Open the interactive shell, or run FILES, -c SQL or standard input in it.

    \b
    sinkql shell
    sinkql shell --format csv -c 'SELECT * FROM mz_sinks' > sinks.csv
    """
    from sinkql.shell.terminal import run_shell

    session, _ = open_session(context)
    texts: list[tuple[str, str | None]] = [(read_script(path), str(path)) for path in files]
    texts += [(command, None) for command in commands]
    if not texts and not (sys.stdin.isatty() and sys.stdout.isatty()):
        texts = [(read_script(Path("-")), None)]
    return run_shell(session, texts, format=format_, keep_going=keep_going)
