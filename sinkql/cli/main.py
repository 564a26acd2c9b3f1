"""Run the command that the arguments name, and turn its errors into output and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

import click

from sinkql.cli.command import catalog, deploy, machine, query, run, script, secret
from sinkql.cli.command import help as documentation
from sinkql.cli.output import Output, OutputFormat
from sinkql.errors import SinkqlError, temporary_folder_error

USAGE = 64


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    output = Output("json" if _wants_json(arguments) else "text")
    try:
        code = cli.main(args=list(arguments), prog_name="sinkql", standalone_mode=False, obj=output)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except SinkqlError as error:
        output.error(error)
        return error.exit_code
    except FileNotFoundError:
        missing = temporary_folder_error()
        if missing is None:
            raise
        output.error(missing)
        return missing.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--output=json" in arguments or any(
        (first, second) == ("--output", "json") for first, second in pairwise(arguments)
    )


@click.group(
    short_help="Turn SQL into Iceberg tables.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="sinkql")
@click.option(
    "--catalog",
    metavar="URL",
    help="The catalog: a file, or postgresql+psycopg://user@host/database for several hosts.  "
    "[default: SINKQL_CATALOG, else .sinkql/catalog.db]",
)
@click.option(
    "--output",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Print text, or one JSON object per line.",
    show_default=True,
)
@click.pass_context
def cli(context: click.Context, catalog: str | None, format_: OutputFormat) -> None:
    """Turn SQL into pipelines that write Apache Iceberg tables exactly once.

    Start with: sinkql demo, sinkql help quickstart

    These options may also follow the command: sinkql status --output json
    """
    # the output knows the scripts in which the errors are
    output = context.obj if isinstance(context.obj, Output) else Output(format_)
    context.obj = (catalog, output)


def _takes_common_options(command: click.Command) -> click.Command:
    """Add the options of sinkql itself to a command and its subcommands."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            _takes_common_options(subcommand)
        return command

    def name_catalog(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.find_root().params["catalog"] = value  # for completion
            if context.obj is not None:  # it is None during completion
                context.obj = (value, context.obj[1])

    formats = click.Choice(["text", "json"])  # `run_command` reads it from all arguments
    command.params += [
        click.Option(["--catalog"], callback=name_catalog, expose_value=False, is_eager=True, hidden=True),
        click.Option(["--output", "output_format"], type=formats, expose_value=False, hidden=True),
    ]
    return command


for _command in (
    run.exec_,
    run.up,
    run.run_,
    run.start,
    run.stop,
    run.status,
    run.demo,
    script.init,
    script.compile_,
    script.explain,
    script.lint,
    script.fmt,
    deploy.plan,
    deploy.apply,
    query.preview,
    query.subscribe,
    query.shell,
    secret.secret,
    catalog.catalog,
    machine.doctor,
    machine.package,
    machine.completion,
    documentation.help_,
):
    cli.add_command(_takes_common_options(_command))
