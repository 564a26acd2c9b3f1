"""A path and variables → a script's text, which errors tell as it was written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from sinkql.cli.output import Output
from sinkql.errors import SinkqlError


def _pairs(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.BadParameter(f"{each} is not NAME=VALUE", context, parameter)
    return {name: value for name, _, value in (each.partition("=") for each in given)}


VARIABLES = click.option(
    "-v",
    "--variable",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_pairs,
    help="Put VALUE where the script says :NAME, as a string :'NAME', as a name :\"NAME\".",
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
    from sinkql.mask import mask  # these load the grammar
    from sinkql.variables import substitute

    try:
        found = substitute(text, variables)
    except SinkqlError as error:
        raise error.within(path=label, text=mask(text).text) from error
    if found.text != text:
        output.written[label] = (found, mask(text).text)
    return found.text


def scripts(paths: Iterable[Path]) -> list[Path]:
    """Return the files that paths name: of a folder all that end in .sql, below it too, in the order of their names."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*.sql"))
            if not inside:
                raise SinkqlError(
                    "SQ4017", f'folder "{path}" has no .sql files', hint="Name a folder of SQL, or files."
                )
            found.extend(inside)
        else:
            found.append(path)
    return found


def read_script(path: Path) -> str:
    """Return a script's text; raises SQ4010 where it cannot be read, SQ1010 where it is not UTF-8."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_bytes().decode()
    except OSError as error:
        raise SinkqlError(
            "SQ4010", f'cannot read "{path}": {error.strerror}', hint="Name a file of SQL, or - for standard input."
        ) from error
    except UnicodeDecodeError as error:
        raise SinkqlError(
            "SQ1010", f"it is not UTF-8 at byte {error.start}", path=str(path), hint="Save the file as UTF-8."
        ) from error
