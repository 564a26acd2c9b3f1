"""Half a command line → its completions, for bash, zsh and fish; the script that asks for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

_VARIABLE = "_SINKQL_COMPLETE"
_CATALOG = Path(".sinkql") / "catalog.db"

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def names_of(*kinds: str) -> Complete:
    """Return what completes an argument with the names of items of some kinds."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from sinkql.catalog.glance import item_names

        given = context.params.get(parameter.name or "") or ()
        found = item_names(_catalog(context), *kinds)
        return [name for name in found if name.startswith(incomplete) and name not in given]

    return complete


def _catalog(context: click.Context) -> Path:
    """Return the catalog file that the command line names so far."""
    given = context.find_root().params.get("catalog")
    if given is None:
        return _CATALOG
    path = Path(str(given).removeprefix("sqlite:///"))
    return path / _CATALOG if path.is_dir() else path


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a script that makes SHELL complete sinkql's commands, options and names of items.

    For bash put this into ~/.bashrc: eval "$(sinkql completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "sinkql", _VARIABLE).source())
    return 0
