"""A path and variables → a script's text, which errors tell as it was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from sinkql.cli.output import Output
from sinkql.errors import SinkqlError
from sinkql.script.file import read_script


def _pairs(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.BadParameter(f"{each} is not NAME=VALUE", context, parameter)
    return {name: value for name, _, value in (each.partition("=") for each in given)}


FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
VARIABLES = click.option(
    "-v",
    "--variable",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_pairs,
    help="Set a variable: the script writes :NAME, :'NAME' for a string, or :\"NAME\" for a name.",
)


def fill_script(path: Path, output: Output, variables: Mapping[str, str]) -> str:
    """Return a script's text with the variables' values in it; errors that `output` prints show it as written.

    Raises what `read_script` raises, and SQ4033 for a variable without a value.
    """
    return _filled(read_script(path), str(path), output, variables)


def fill_scripts(paths: Sequence[Path], output: Output, variables: Mapping[str, str]) -> tuple[str, str]:
    """Return the text of several scripts one after the other, and what errors call it."""
    label = ", ".join(str(path) for path in paths)
    return _filled("\n".join(read_script(path) for path in paths), label, output, variables), label


def _filled(text: str, label: str, output: Output, variables: Mapping[str, str]) -> str:
    from sinkql.connector_api.registry import discover
    from sinkql.script.redaction import mask  # these load the grammar
    from sinkql.script.variable import substitute

    try:
        found = substitute(text, variables)
    except SinkqlError as error:
        raise error.within(path=label, text=mask(text, discover().vocabulary).text) from error
    if found.text != text:
        output.written[label] = (found, mask(text, discover().vocabulary).text)
    return found.text
