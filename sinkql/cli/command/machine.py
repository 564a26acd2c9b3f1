"""`sinkql doctor`, `completion`: what is wrong on this machine, and how its shell completes commands."""

from __future__ import annotations

import click

from sinkql.cli.output import Output

_MARKS = {"ok": "ok", "warning": "warning", "wrong": "WRONG"}
_ENVIRONMENT = 4
_VARIABLE = "_SINKQL_COMPLETE"


@click.command(short_help="Check this machine and the catalog.")
@click.pass_context
def doctor(context: click.Context) -> int:
    """Check this machine and the catalog file, and say how to fix what is missing or wrong. Starts no Spark.

    Exits with 4 if anything is wrong; warnings do not count.
    """
    from sinkql.session.doctor import checks
    from sinkql.session.session import catalog_file

    name, output = context.obj
    assert isinstance(output, Output)
    wrong = 0
    for check in checks(catalog_file(name)):
        wrong += check.state == "wrong"
        text = f"{_MARKS[check.state]:<8} {check.name}: {check.found}"
        output.line(text, name=check.name, state=check.state, found=check.found, fix=check.fix)
        if check.fix is not None:
            output.note(f"         {check.fix}")
    output.note("" if wrong else "no problems found")
    return _ENVIRONMENT if wrong else 0


@click.command(short_help="Print a script for completion in bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a script that makes SHELL complete sinkql's commands, options and names of items.

    For bash add this line to ~/.bashrc: eval "$(sinkql completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "sinkql", _VARIABLE).source())
    return 0
