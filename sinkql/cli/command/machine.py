"""`sinkql doctor`, `package`, `completion`: what is wrong on this machine, an archive of what is installed on it for
Spark's executors, and how its shell completes commands.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sinkql.cli.context import VARIABLES, fill_scripts, of_server
from sinkql.cli.output import Output

if TYPE_CHECKING:
    from sinkql.connector_api.health_check import HealthCheck

_MARKS = {"ok": "ok", "warning": "warning", "wrong": "WRONG"}
_ENVIRONMENT = 4
_VARIABLE = "_SINKQL_COMPLETE"


@click.command(short_help="Check this machine, the catalog, and the servers that it reads.")
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Check the servers of this script instead, which is not run; may be repeated.",
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
    """Check this machine, the catalog and the servers of its connections, and say how to fix what is wrong.

    A server is asked for what sources need of it: settings, privileges, replication slots, keys of tables, retention.
    Nothing is changed there. Starts no Spark.

    Exits with 4 if anything is wrong; warnings do not count.
    """
    from sinkql.catalog.address import address_of, project_of
    from sinkql.session.doctor import checks
    from sinkql.session.scaffold import examine
    from sinkql.session.server_check import checks_of_script

    name, output = context.obj
    assert isinstance(output, Output)
    if address is not None:
        if files:
            raise click.UsageError("a script and an address cannot be checked at once")
        return _tell(output, examine(address, registry=registry))
    if files:
        return _tell(output, checks_of_script(*fill_scripts(files, output, variables), project_of(address_of(name))))
    return _tell(output, checks(address_of(name)))


def _tell(output: Output, checks: Iterable[HealthCheck]) -> int:
    wrong = 0
    for check in checks:
        wrong += check.state == "wrong"
        text = f"{_MARKS[check.state]:<8} {check.name}: {check.found}"
        output.line(text, name=check.name, state=check.state, found=check.found, fix=check.fix)
        if check.fix is not None:
            output.note(f"         {check.fix}")
    output.note("" if wrong else "no problems found")
    return _ENVIRONMENT if wrong else 0


@click.command(short_help="Write what Spark's executors need as an archive.")
@click.argument("target", metavar="FILE.zip", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--driver", is_flag=True, help="Add what only the driver needs, where it runs on the cluster too.")
@click.pass_context
def package(context: click.Context, target: Path, driver: bool) -> int:
    """Write SinkQL and the packages that it needs, as they are installed here, to FILE.zip for executors of a cluster.

    A cluster with MASTER makes such an archive by itself, and hands it out with each start. One that is kept where all
    machines read it is named in CONF, as in MAP['spark.archives' => 's3a://bucket/FILE.zip#sinkql'].
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

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "sinkql", _VARIABLE).source())
    return 0
