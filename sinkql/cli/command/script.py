"""`sinkql compile`, `init`, `explain`, `lint`, `fmt`: compile, write, check and format scripts."""

from __future__ import annotations

import json
import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sinkql
from sinkql.cli.context import FILES, VARIABLES, fill_script, fill_scripts, of_server, output_of
from sinkql.cli.output import Output
from sinkql.errors import SinkqlError, as_data, for_json, for_terminal
from sinkql.script.redaction import mask
from sinkql.script.split import read_script, script_files
from sinkql.storage import files as storage_files

if TYPE_CHECKING:
    from sinkql.program.lint import Finding


@click.command("compile", short_help="Write the jobs of scripts as JSON.")
@FILES
@VARIABLES
@click.option("-o", "target", type=click.Path(path_type=Path), help="File to write.  [default: standard output]")
@click.option(
    "--facts",
    type=click.Path(exists=True, path_type=Path),
    help="JSON file with facts of other systems about items: {item: {…}}.",
)
@click.pass_context
def compile_(
    context: click.Context,
    files: tuple[Path, ...],
    variables: dict[str, str],
    target: Path | None,
    facts: Path | None,
) -> int:
    """Plan the statements of FILES and write the jobs of their sinks as JSON.

    Needs no Spark, no network and no catalog.
    """
    from sinkql.connector_api.registry import discover

    _, output = context.obj
    outside_facts = json.loads(facts.read_text()) if facts is not None else None
    text, paths = fill_scripts(files, output, variables)
    program = sinkql.compile(text, facts=outside_facts, path=paths)
    shown = mask(text, discover().keywords).text if program.notices else None
    for notice in program.notices:
        output.notice(notice, path=paths, text=shown)
    if target is None:
        click.echo(for_json(program.to_json()))
    else:
        # a job holds the values of its connections' options
        storage_files.write_atomic(target, (program.to_json() + "\n").encode(), private=True)
        jobs = "1 job" if len(program.jobs) == 1 else f"{len(program.jobs)} jobs"
        output.line(f"wrote {jobs} to {target}", jobs=len(program.jobs), file=target)
    return 0


@click.command(short_help="Write a script for the tables or topics of a server.")
@click.argument("names", nargs=-1)
@of_server("The server", required=True)
@click.option("--namespace", metavar="NAME", help="The namespace of the tables.  [default: the database]")
@click.option(
    "-o",
    "target",
    type=click.Path(path_type=Path),
    default=Path("pipeline.sql"),
    show_default=True,
    help="File to write; - is standard output.",
)
@click.pass_context
def init(
    context: click.Context,
    names: tuple[str, ...],
    address: str,
    registry: str | None,
    namespace: str | None,
    target: Path,
) -> int:
    """Write a script that reads the tables or topics of a server, or only NAMES, into Iceberg tables.

    Comments list unreadable tables with the reason and the fix. Nothing changes on the server. The command and the
    script read the password from PGPASSWORD, MYSQL_PWD, KAFKA_PASSWORD or REGISTRY_PASSWORD.

    \b
    sinkql init --from postgres://ann@localhost:5432/shop
    sinkql exec pipeline.sql
    """
    from sinkql.session.scaffold import write_script

    _, output = context.obj
    if str(target) != "-" and target.exists():
        raise SinkqlError("SQ4041", f'"{target}" exists already', hint="Name another file with -o.")
    text, variables, left_out = write_script(address, names, registry=registry, namespace=namespace)
    if str(target) == "-":
        click.echo(_shown(text), nl=False)
        return 0
    storage_files.write_atomic(target, text.encode())
    output.line(f"wrote {target}", file=target, variables=variables, left_out=left_out)
    if left_out:
        output.note(f"{', '.join(left_out)}: left out, {target} says why")
    needs = f"With {' and '.join(variables)} in the environment, run" if variables else "Run"
    output.note(f"{needs} sinkql exec {target}")
    return 0


@click.command(short_help="Show the plans of scripts.")
@FILES
@VARIABLES
@click.option(
    "--stage",
    type=click.Choice(["raw", "optimized", "physical", "spark-sql"]),
    default="physical",
    show_default=True,
    help="Which plan to show.",
)
@click.pass_context
def explain(context: click.Context, files: tuple[Path, ...], variables: dict[str, str], stage: str) -> int:
    """Show the plans of the sinks and views of FILES. Needs no Spark, no network and no catalog."""
    _, output = context.obj
    text, paths = fill_scripts(files, output, variables)
    program = sinkql.compile(text, path=paths)
    for name, text in program.explain(stage):
        output.line(text, item=name, stage=stage, plan=text)
    return 0


@click.command(short_help="Find errors in scripts.")
@FILES
@VARIABLES
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings as well as errors.")
@click.pass_context
def lint(context: click.Context, files: tuple[Path, ...], variables: dict[str, str], strict: bool) -> int:
    """Find errors and likely errors in FILES (or folders of .sql files).

    The errors are the errors of a run on an empty catalog. The files of a folder form one catalog, in the order of
    their dependencies. Files that you name are checked separately. Needs no Spark, no network and no catalog.
    """

    output = output_of(context)
    count = {"error": 0, "warning": 0}
    for path in files:
        for finding in _findings(path, output, variables):
            count[finding.level] += 1
            error = output.original(finding.error)
            if output.format == "json":
                click.echo(json.dumps({"level": finding.level, **as_data(error)}))
            else:
                click.echo(error.shown(level=finding.level))
                click.echo()
    output.note(f"errors: {count['error']}, warnings: {count['warning']}")
    return 1 if count["error"] or (strict and count["warning"]) else 0


def _findings(path: Path, output: Output, variables: dict[str, str]) -> tuple[Finding, ...]:
    from sinkql.program.lint import lint as lint_script
    from sinkql.program.script_folder import lint_folder

    if not path.is_dir():
        return lint_script(fill_script(path, output, variables), str(path))
    return lint_folder([(str(file), fill_script(file, output, variables)) for file in script_files([path])])


@click.command(short_help="Format scripts.")
@FILES
@click.option("--check", is_flag=True, help="Change nothing. Exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Change nothing. Show the changes.")
def fmt(files: tuple[Path, ...], check: bool, diff: bool) -> int:
    """Format FILES (or folders of .sql files) in place: keywords in upper case, one clause per line.

    A statement that is written in one line of at most 120 characters stays in
    one line. A file named - is read from standard input and written to
    standard output.

    Comments, queries and variables stay unchanged. Files that do not parse stay unchanged too.
    """

    changed = False
    for path in script_files(files):
        text = read_script(path)
        formatted = _formatted(text, str(path))
        changed = changed or text != formatted
        if diff:
            click.echo(_shown(_diff(text, formatted, str(path))), nl=False)
        elif check:
            if text != formatted:
                click.echo(for_terminal(str(path)))
        elif str(path) == "-":
            click.echo(_shown(formatted), nl=False)
        elif text != formatted:
            storage_files.write_atomic(path, formatted.encode())
            click.echo(for_terminal(str(path)))
    return 1 if check and changed else 0


def _formatted(text: str, path: str) -> str:
    from sinkql.connector_api.registry import discover
    from sinkql.script.format import format_script

    words = discover().keywords
    try:
        return format_script(text, words)
    except SinkqlError as error:
        masked = mask(text, words)
        raise masked.cover(error.within(path=path, text=masked.text)) from None


def _shown(text: str) -> str:
    """Return a text for the output: unchanged if another program reads it."""
    return for_terminal(text) if sys.stdout.isatty() else text


def _diff(text: str, formatted: str, path: str) -> str:
    lines = unified_diff(text.splitlines(), formatted.splitlines(), path, path, lineterm="")
    return "".join(f"{line}\n" for line in lines)
