"""Generate the page of the command line from click's commands, the events of `--output json`, and exit codes."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

import sinkql
from docs.links import link
from docs.markdown_parts import bullets, cell, code, escaped, front_matter, paragraph, table, text_block
from sinkql.cli import progress
from sinkql.cli.main import USAGE, cli
from sinkql.errors import Family

_PACKAGE = Path(sinkql.__file__).parent
_INTRO = """# The command line

Look up commands, options, exit codes, environment variables and the events of `--output json`.

`sinkql COMMAND --help` and `man sinkql-COMMAND` show the same help.
`sinkql --catalog` and `--output` may stand before or after the command.
"""
_GROUPS = {
    "Run pipelines": ("exec", "up", "start", "stop", "status", "run", "demo"),
    "Write and check SQL": ("init", "lint", "fmt", "explain", "compile"),
    "Deploy from files": ("plan", "apply"),
    "Look at rows": ("preview", "subscribe", "shell"),
    "Manage": ("secret", "catalog", "doctor", "package", "completion", "help"),
}
_CODES = {
    "0": "Success. `doctor` and `lint` also exit with 0 if they print only warnings.",
    "1": "An error in the SQL: SQ1… or SQ2…. `lint` found an error. `fmt --check` would change a file. `help` found "
    "no page.",
    "2": "`plan --detailed-exitcode` found something to change.",
    "3": "A sink or a batch failed: SQ3….",
    "4": "The environment or a remote service failed: SQ4…. `doctor` or `catalog verify` found a problem.",
    "5": "Another process has the sink or the catalog: SQ5….",
    str(USAGE): "The command line is wrong: an unknown command, option or argument.",
    "130": "Ctrl-C or SIGINT stopped the command before a sink ran, or twice.",
    "143": "SIGTERM stopped the command before a sink ran, or twice.",
}
_VARIABLES = {
    "SINKQL_CATALOG": "The catalog, if the command has no `--catalog`: a file or a URL of Postgres.",
    "SINKQL_CATALOG_KEY": "The key that encrypts stored secrets: 32 bytes in base64. A catalog in Postgres needs it.",
    "SINKQL_ARCHIVE": "`off` builds no archive of Java classes. The archive makes later starts faster.",
    "SINKQL_PAGER": "The program that shows long output. The default is `PAGER`, else `less -SRF`.",
    "PAGER": "The program that shows long output, if `SINKQL_PAGER` is not set.",
    "EDITOR": "The editor of the shell, if `VISUAL` is not set.",
    "VISUAL": "The editor of the shell.",
    "NO_COLOR": "Any value turns colours off.",
    "JAVA_HOME": "The Java that Spark runs on.",
    "XDG_CACHE_HOME": "The folder of caches. The default is `~/.cache`.",
    "TMPDIR": "The folder of temporary files.",
    "PGPASSWORD": "The password of a catalog in Postgres. `init` also reads it for the server.",
    "MYSQL_PWD": "The password of the MySQL or MariaDB server that `init` reads.",
    "KAFKA_PASSWORD": "The password of the Kafka brokers that `init` reads.",
    "REGISTRY_PASSWORD": "The password of the schema registry that `init` reads.",
    "AWS_ACCESS_KEY_ID": "The key that assumes the role of an AWS connection. `AWS_SECRET_ACCESS_KEY` belongs to it.",
    "AWS_REGION": "The region of AWS Secrets Manager.",
    "AWS_CA_BUNDLE": "Certificates of authorities for AWS connections and sources in S3.",
    "SSL_CERT_FILE": "Certificates of authorities for sinks that write to S3.",
    "REQUESTS_CA_BUNDLE": "Certificates of authorities for Iceberg catalogs.",
    "VAULT_ADDR": "The address of HashiCorp Vault. `VAULT_TOKEN` and `VAULT_CACERT` belong to it.",
    "HADOOP_USER_NAME": "The user name that Spark uses on a cluster.",
}
_EVENTS = {
    "spark starting": "Spark starts for a cluster.",
    "spark started": "Spark is up.",
    "spark stopped": "Spark has stopped, because no batch has needed it for long.",
    "java missing": "No Java was found. Sinks run, and a batch that needs Spark waits.",
    "elsewhere": "Another process runs the sink. This one takes over when that process ends.",
    "starting": "A sink starts.",
    "stage": "A sink is in a stage of its start or of a batch.",
    "started": "A sink is running. `epoch` is the number of this run.",
    "committed": "A sink has committed a batch.",
    "compacted": "A sink has compacted files of its table, or could not. `problem` shows the reason.",
    "rebuilding": "A sink recovers its state from its sources. `error` shows the loss.",
    "rereading": "A sink does a full refresh.",
    "snapshotting": "A sink reads the first snapshot of a database.",
    "reached": "A sink has read all that its sources had when a program asked for it.",
    "stalled": "A batch failed, and the sink retries. `error` shows the reason.",
    "stopped": "A sink has ended. `why` is the reason.",
}
_ERROR = """```json
{"error": {"code": "SQ2204", "message": "…", "path": "pipeline.sql", "line": 3, "column": 8, "start": 51, "end": 54,
           "detail": "…", "hint": "…", "retryable": false}}
```
"""


def pages() -> dict[str, str]:
    """Return the page by its path under docs/."""
    return {"reference/cli.md": "\n".join(_parts())}


def _parts() -> Iterator[str]:
    yield front_matter("command", "flag", "cli", "exit status", "env", "environment variable", "json output")
    yield _INTRO
    yield table(("command", "use"), [_summary(name) for names in _GROUPS.values() for name in names])
    yield "## Options of all commands\n"
    yield table(("option", "meaning"), [_option(each) for each in cli.params if isinstance(each, click.Option)])
    for title, names in _GROUPS.items():
        yield f"## {title}\n"
        for name in names:
            yield from _command(f"sinkql {name}", cli.commands[name])
    yield "## Exit codes\n"
    yield paragraph("With several errors, the first one decides. The page of an error shows its exit code.")
    yield table(("code", "meaning"), [(code(name), escaped(meaning)) for name, meaning in _CODES.items()])
    yield "## Environment variables\n"
    yield table(("variable", "meaning"), [(code(name), escaped(meaning)) for name, meaning in _VARIABLES.items()])
    yield "## JSON output\n"
    yield paragraph(
        "With `--output json`, each line of standard output is one JSON object. Errors and notices are lines of "
        "standard error. Optional fields are missing if they have no value."
    )
    yield _ERROR
    yield paragraph("A notice has the same fields under `notice`.")
    yield "### Events of running sinks\n"
    yield paragraph(
        "`exec`, `up` and `run` print an event a line. `sink` is the full name of the sink; an event of a materialized "
        "view's job has `view` instead."
    )
    yield table(
        ("event", "fields", "meaning"),
        [(code(name), ", ".join(code(each) for each in fields), cell(_EVENTS[name])) for name, fields in events()],
    )
    yield "## See also\n"
    yield bullets(
        [
            link("errors/index.md", "reference"),
            link("how-to/plan-apply.md", "reference"),
            link("how-to/run-in-production.md", "reference"),
            link("reference/shell.md", "reference"),
        ]
    )


def _summary(name: str) -> tuple[str, str]:
    command = cli.commands[name]
    return f"[`sinkql {name}`](#sinkql-{name})", escaped(command.get_short_help_str(200))


def _command(name: str, command: click.Command, level: int = 3) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield text_block(f"{name} {usage}".replace(" [OPTIONS]", " [options]" if _options(command) else ""))
    yield from _help(inspect.cleandoc(command.help or ""))
    if options := _options(command):
        yield table(("option", "meaning"), [_option(each) for each in options])
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _command(f"{name} {each.name}", each, level + 1)


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def _option(option: click.Option) -> tuple[str, str]:
    names = ", ".join(each for each in (*option.opts, *option.secondary_opts))
    takes = ""
    if not option.is_flag and not option.count:
        choices = option.type.choices if isinstance(option.type, click.Choice) else ()
        takes = f" {'|'.join(map(str, choices)) or option.metavar or option.type.name.upper()}"
    help_ = re.sub(r"\s+\[default: (.*)\]$", r" The default is \1.", option.help or "")
    if option.show_default and option.default is not None:
        help_ += f" The default is {option.default}."
    return code(f"{names}{takes}"), cell(help_)


def _help(text: str) -> Iterator[str]:
    """Yield the paragraphs of a command's help; those after \\b keep their lines."""
    for part in re.split(r"\n\s*\n", text.replace("\x08", "\\b")):
        if part.startswith("\\b"):
            yield text_block(part.removeprefix("\\b").strip("\n"))
        elif part.strip():
            yield paragraph(escaped(" ".join(part.split())).replace("\\`", "`"))


def events() -> list[tuple[str, list[str]]]:
    """Return the events that running sinks print as JSON, each with the names of its fields."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(progress))):
        match node:
            case ast.Call(func=ast.Attribute(attr="_say"), keywords=keywords):
                fields: list[str] = []
                name = ""
                for each in keywords:
                    if each.arg == "event" and isinstance(each.value, ast.Constant):
                        name = str(each.value.value)
                    elif each.arg is None:
                        fields += _spread(ast.unparse(each.value))
                    elif each.arg != "live":
                        fields.append(each.arg)
                if name:
                    found[name] = fields
    found["stalled"] = ["sink", "error"]
    return [(name, found[name]) for name in [*_EVENTS, *(found.keys() - _EVENTS.keys())]]


def _spread(text: str) -> list[str]:
    """Return the fields that another mapping adds."""
    if "_named" in text or text == "named":
        return ["sink"]
    kinds = {"asdict(snapshot)": "FirstSnapshot", "asdict(done)": "Compacted"}
    kind = _dataclass(kinds[text])
    return [
        node.target.id for node in kind.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def _dataclass(name: str) -> ast.ClassDef:
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        if f"class {name}:" in text:
            tree = ast.parse(text)
            return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    raise LookupError(name)


def variables() -> set[str]:
    """Return the environment variables on the page."""
    return set(_VARIABLES)


assert {str(each.exit_code) for each in Family} <= set(_CODES)
