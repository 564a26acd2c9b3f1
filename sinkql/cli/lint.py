"""`sinkql lint`: all that is wrong in scripts, and what may be."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sinkql.cli.output import Output
from sinkql.cli.script import VARIABLES, fill_script, scripts
from sinkql.errors import as_data, render


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@VARIABLES
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.pass_context
def lint(context: click.Context, files: tuple[Path, ...], variables: dict[str, str], strict: bool) -> int:
    """Print all that is wrong in each of FILES (or folders), and what may turn out to be.

    Starts no Spark and touches no network.
    """
    from sinkql.lint import lint as findings

    _, output = context.obj
    assert isinstance(output, Output)
    count = {"error": 0, "warning": 0}
    for path in scripts(files):
        for finding in findings(fill_script(path, output, variables), str(path)):
            count[finding.level] += 1
            error = output.original(finding.error)
            if output.format == "json":
                click.echo(json.dumps({"level": finding.level, **as_data(error)}))
            else:
                click.echo(render(error, level=finding.level))
                click.echo()
    output.note(f"errors: {count['error']}, warnings: {count['warning']}")
    return 1 if count["error"] or (strict and count["warning"]) else 0
