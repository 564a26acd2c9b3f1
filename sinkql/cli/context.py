"""Open the catalog, the server and the scripts that the command line names.

Commands that only read use an existing catalog. Completion reads a catalog without opening it. Errors in a script
with variables show the script as written. Every start loads this module, so its functions import the modules that load
slowly.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sinkql.catalog.address import Address, ServerUrl, address_of, project_of
from sinkql.cli.output import Output
from sinkql.errors import NoCatalogError, SinkqlError, for_terminal
from sinkql.script.redaction import mask
from sinkql.script.split import read_script
from sinkql.script.variable import substitute

if TYPE_CHECKING:
    from sinkql.session import Session


Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def output_of(context: click.Context) -> Output:
    """Return the output of the command."""
    output: Output = context.obj[1]
    return output


def open_session(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog that the command line names, until the command ends."""
    catalog, output = context.obj
    return _opened(context, catalog), output


def open_or_empty(context: click.Context) -> tuple[Session, Output]:
    """Open the catalog, or an empty one for this command only: a comparison must not create a catalog."""
    catalog, output = context.obj
    try:
        return _opened(context, catalog, existing=True), output
    except NoCatalogError:
        folder = context.with_resource(tempfile.TemporaryDirectory(prefix="sinkql-empty-"))
        return _opened(context, Path(folder) / "catalog.db", project=project_of(address_of(catalog))), output


def _opened(
    context: click.Context, catalog: str | Path | None, *, existing: bool = False, project: Path | None = None
) -> Session:
    from sinkql.session import Session

    session = Session(catalog, existing=existing, project=project)
    context.call_on_close(session.close)
    return session


def open_existing(context: click.Context) -> tuple[Session, Output]:
    """Open an existing catalog: a command that only reads must not create one. Raises SQ4115 without a catalog."""
    catalog, output = context.obj
    return _opened(context, catalog, existing=True), output


def address_in(context: click.Context) -> tuple[Address, Output]:
    """Return the address of the catalog that the command line names."""
    named, output = context.obj
    return address_of(named), output


def names_of(*kinds: str) -> Complete:
    """Return a function that completes an argument with the names of items of these kinds."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from sinkql.catalog.sqlite import item_names as of_file

        written = context.params.get(parameter.name or "") or ()
        try:
            address = address_of(context.find_root().params.get("catalog"))
        except SinkqlError:
            return []  # completion shows no errors
        names = of_file.item_names(address, *kinds) if isinstance(address, Path) else _of_server(address, *kinds)
        shown = (name for name in names if name == for_terminal(name))  # other names hold control characters
        return [name for name in shown if name.startswith(incomplete) and name not in written]

    return complete


def _of_server(url: ServerUrl, *kinds: str) -> list[str]:
    try:
        from sinkql.catalog.postgres.item_names import item_names
    except ImportError:  # a package for this server is missing
        return []
    return item_names(url, *kinds)


Declared = Callable[..., Any]


def of_server(what: str, *, required: bool = False) -> Callable[[Declared], Declared]:
    """Return a decorator that adds the parameters `address` and `registry`; `what` is the purpose of --from."""

    def declare(command: Declared) -> Declared:
        text = f"{what}: postgres://…, mysql://… or kafka://…"
        address = click.option("--from", "address", metavar="URL", required=required, help=text)
        registry = click.option(
            "--registry", metavar="URL", help="With --from kafka://…: the schema registry of its topics."
        )
        return address(registry(command))

    return declare


def _pairs(context: click.Context, parameter: click.Parameter, assignments: Sequence[str]) -> dict[str, str]:
    for assignment in assignments:
        if "=" not in assignment:
            raise click.BadParameter(f"{assignment} is not NAME=VALUE", context, parameter)
    return {name: value for name, _, value in (assignment.partition("=") for assignment in assignments)}


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
    """Return a script's text with the variables' values; errors that `output` prints show it as written.

    Raises the errors of `read_script`, and SQ4033 for a variable without a value.
    """
    return _filled(read_script(path), str(path), output, variables)


def fill_scripts(paths: Sequence[Path], output: Output, variables: Mapping[str, str]) -> tuple[str, str]:
    """Return the text of several scripts joined, and its label for errors."""
    label = ", ".join(str(path) for path in paths)
    return _filled("\n".join(read_script(path) for path in paths), label, output, variables), label


def _filled(text: str, label: str, output: Output, variables: Mapping[str, str]) -> str:
    from sinkql.connector_api.registry import discover

    try:
        filled = substitute(text, variables)
    except SinkqlError as error:
        raise error.within(path=label, text=mask(text, discover().keywords).text) from error
    if filled.text != text:
        output.written[label] = (filled, mask(text, discover().keywords).text)
    return filled.text
