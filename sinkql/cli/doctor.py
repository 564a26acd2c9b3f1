"""`sinkql doctor`: what is missing or wrong on this machine, with its fix."""

from __future__ import annotations

import click

from sinkql.cli.output import Output

_MARKS = {"ok": "ok", "warning": "warning", "wrong": "WRONG"}
_ENVIRONMENT = 4


@click.command()
@click.pass_context
def doctor(context: click.Context) -> int:
    """Check this machine and the catalog file, and say how to mend what is missing or wrong. Starts no Spark.

    Exits with 4 if anything is wrong. Warnings are for what works here and may not work well.
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
    output.note("" if wrong else "nothing is wrong")
    return _ENVIRONMENT if wrong else 0
