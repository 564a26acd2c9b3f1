"""`sinkql preview`: the first rows of a source, view, table or sink, of the catalog or of a script that nothing ran."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sinkql.cli.completion import names_of
from sinkql.cli.opening import open_session
from sinkql.cli.output import Output
from sinkql.cli.script import read_script

if TYPE_CHECKING:
    from sinkql.session import Result


@click.command()
@click.argument("item", shell_complete=names_of("SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "SINK"))
@click.option("--limit", type=click.IntRange(min=0), default=10, show_default=True, help="How many rows to print.")
@click.option("-f", "--file", "file", type=click.Path(exists=False, path_type=Path), help="Take ITEM from this script.")
@click.pass_context
def preview(context: click.Context, item: str, limit: int, file: Path | None) -> int:
    """Print rows of ITEM: a source, view or table as it is now, or what a sink wrote.

    With --file the script's items are made for this alone, in no catalog; of a sink the rows are those it would read.
    """
    if file is not None:
        return _print(context.obj[1], _from_script(file, item, limit))
    session, output = open_session(context)
    return _print(output, session.preview(item, limit=limit))


def _print(output: Output, result: Result) -> int:
    output.table(result.columns, result.rows)
    for notice in result.notices:
        output.notice(notice)
    return 0


def _from_script(path: Path, item: str, limit: int) -> Result:
    from sinkql import ast
    from sinkql.errors import SinkqlError
    from sinkql.mask import mask
    from sinkql.parser import parse
    from sinkql.session import Session

    text = read_script(path)
    masked = mask(text)
    relations: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="sinkql-preview-") as folder,
        Session(Path(folder) / "catalog.db") as session,
    ):
        try:
            for statement in parse(text):
                if isinstance(statement, ast.CreateSink) and statement.name is not None:
                    relations[statement.name.text] = statement.relation.text
                elif not isinstance(statement, ast.CreateSink):
                    session.run_statement(statement)
        except SinkqlError as error:
            raise masked.cover(error.within(path=str(path), text=masked.text)) from error.__cause__
        return session.preview(relations.get(item, item), limit=limit)
