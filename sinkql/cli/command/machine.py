"""`sinkql doctor`, `package`, `completion`: check this machine and its servers, pack the installed packages for
executors, and print completion scripts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sinkql.catalog.address import address_of, project_of
from sinkql.cli.context import VARIABLES, fill_scripts, of_server, output_of
from sinkql.cli.output import Output

if TYPE_CHECKING:
    from sinkql.connector_api.health_check import HealthCheck

_MARKS = {"ok": "ok", "warning": "warning", "wrong": "WRONG"}
_ENVIRONMENT = 4
_VARIABLE = "_SINKQL_COMPLETE"


@click.command(short_help="Check this machine, the catalog and its servers.")
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Check the servers of this script instead, without running it. May be repeated.",
)
@of_server("Check this server instead, and all of its tables or topics")
@VARIABLES
@click.pass_context
def doctor(
    context: click.Context,
    files: tuple[Path, ...],
    address: str | None,
    registry: str | None,
    variables: dict[str, str],
) -> int:
    """Check this machine, the catalog and the servers of its connections, and show how to fix problems.

    Reads the facts that sources need from each server: settings, privileges, replication slots, keys of tables,
    retention. Changes nothing there. Starts no Spark.

    Exits with 4 if a check fails. Warnings do not count.
    """
    from sinkql.session.doctor import checks
    from sinkql.session.scaffold import check_address
    from sinkql.session.server_check import checks_of_script

    name, output = context.obj[0], output_of(context)
    if address is not None:
        if files:
            raise click.UsageError("a script and an address cannot be checked together")
        return _tell(output, check_address(address, registry=registry))
    if files:
        return _tell(output, checks_of_script(*fill_scripts(files, output, variables), project_of(address_of(name))))
    return _tell(output, checks(address_of(name)))


def _tell(output: Output, checks: Iterable[HealthCheck]) -> int:
    wrong = warnings = 0
    for check in checks:
        wrong += check.state == "wrong"
        warnings += check.state == "warning"
        text = f"{_MARKS[check.state]:<8} {check.name}: {check.found}"
        output.line(text, name=check.name, state=check.state, found=check.found, fix=check.fix)
        if check.fix is not None:
            output.note(f"         {check.fix}")
    output.note("" if wrong else _summary(warnings))
    return _ENVIRONMENT if wrong else 0


def _summary(warnings: int) -> str:
    match warnings:
        case 0:
            return "no problems found"
        case 1:
            return "no errors, 1 warning"
        case _:
            return f"no errors, {warnings} warnings"


@click.command(short_help="Build an archive for Spark executors.")
@click.argument("target", metavar="FILE.zip", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--driver", is_flag=True, help="Add packages for a driver that runs on the cluster.")
@click.pass_context
def package(context: click.Context, target: Path, driver: bool) -> int:
    """Write SinkQL and its installed packages to FILE.zip, for executors of a cluster.

    A cluster with MASTER builds such an archive at each start and ships it. To use a stored archive that all machines
    can read, name it in CONF, as in MAP['spark.archives' => 's3a://bucket/FILE.zip#sinkql'].
    """
    from sinkql.runtime.spark.package import pack, python_version

    _, output = context.obj
    if target.suffix != ".zip":
        raise click.UsageError(f"the name of the archive must end in .zip, as in {target.with_suffix('.zip')}")
    pack(target, driver=driver)
    size = target.stat().st_size
    version = python_version()
    output.line(f"wrote {size >> 20} MB for Python {version} to {target}", file=target, bytes=size, python=version)
    output.note(f"name it in a cluster's CONF: MAP['spark.archives' => '{target.absolute()}#sinkql']")
    return 0


@click.command(short_help="Print a script for completion in bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a script that makes SHELL complete sinkql's commands, options and names of items.

    For bash add this line to ~/.bashrc: eval "$(sinkql completion bash)"
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(context.find_root().command, {}, "sinkql", _VARIABLE).source())
    return 0
