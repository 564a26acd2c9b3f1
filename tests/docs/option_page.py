"""Generate the page of options from the registry's dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta

from docs.links import link
from docs.markdown_parts import bullets, cell, code, front_matter, paragraph, table
from sinkql.connector_api.option_help import OptionHelp, offered
from sinkql.connector_api.options import label
from sinkql.connector_api.registry import Registry, discover
from sinkql.planner.item.connection import ClusterOptions

_HEAD = """# Options

Look up an option of a connection, cluster, source, format or sink.

You can leave out `=`. A string of one word needs no quotes. An interval is a string such as `'10s'`, `'1 min'` or
`'00:00:30'`. "Secret or string" is `SECRET name`, a string, or `'a:' || SECRET name`. `USERNAME` of a connection is
another name of `USER`. A dash is no fixed default: the option is unset, or its meaning names the default.
"""
_VALUES = {
    "text": "string",
    "secret": "`SECRET name`",
    "text or secret": "secret or string",
    "list": "list of strings",
    "numbers": "list of numbers",
    "map": "`MAP['key' => 'value']`",
}
_WITH = "Options in `WITH (…)`, at the end of the statement:"


def pages() -> dict[str, str]:
    """Return the page by its path under docs/."""
    return {"reference/options.md": "\n".join(_parts(discover()))}


def _parts(registry: Registry) -> Iterator[str]:
    yield front_matter("setting", "parameter", "configuration", "default")
    yield _HEAD
    yield "## Connections\n"
    for name, connection in sorted(registry.connections.items()):
        yield from _section(f"CREATE CONNECTION … TO {name}", connection.options)
    yield "## Clusters\n"
    yield from _section("CREATE CLUSTER", ClusterOptions)
    yield "## Sources\n"
    for name, source in sorted(registry.sources.items()):
        yield from _section(f"CREATE SOURCE … FROM {name}", source.options, source.with_options)
    yield "## Formats\n"
    for name, format_ in sorted(registry.formats.items()):
        if format_.options is not None:
            yield from _section(f"FORMAT {name}", format_.options)
    yield "## Sinks\n"
    for name, sink in sorted(registry.sinks.items()):
        yield from _section(f"CREATE SINK … INTO {name} CONNECTION", sink.options, sink.with_options)
    yield "## See also\n"
    see = (
        "connectors/iceberg-sink.md", "connectors/kafka-source.md", "connectors/kafka-sink.md", "connectors/files.md",
        "connectors/postgres.md", "connectors/mysql.md", "how-to/choose-a-catalog.md", "how-to/secrets.md",
    )  # fmt: skip
    yield bullets(link(path, "reference") for path in see)


def _section(title: str, options: type | None, with_options: type | None = None) -> Iterator[str]:
    yield f"### {title}\n"
    if options is not None and offered(options):
        yield _table(options)
    elif with_options is None:
        yield paragraph("It has no options.")
    if with_options is not None:
        yield f"{_WITH}\n"
        yield _table(with_options)


def _table(into: type) -> str:
    defaults = {label(field): field.default for field in dataclasses.fields(into)}
    rows = [
        (code(each.label), _value(each), _default(each, defaults[each.label]), _told(each)) for each in offered(into)
    ]
    return table(("option", "value", "default", "meaning"), rows)


def _value(option: OptionHelp) -> str:
    if option.choices:
        return ", ".join(f"`'{choice}'`" for choice in option.choices)
    return _VALUES.get(option.takes, option.takes)


def _told(option: OptionHelp) -> str:
    return cell(option.help) or "–"


def _default(option: OptionHelp, default: object) -> str:
    match default:
        case _ if option.required:
            return "required"
        case bool():
            return str(default).lower()
        case int() | float():
            return str(default)
        case str():
            return f"`'{default}'`"
        case timedelta():
            return f"`'{default // timedelta(seconds=1)}s'`"
    return "–"
