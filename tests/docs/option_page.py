"""The registry's dataclasses of options → the page of options."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta

from sinkql.connector_api.option_help import OptionHelp, offered
from sinkql.connector_api.options import label
from sinkql.connector_api.registry import Registry
from sinkql.planner.item.connection import ClusterOptions

_HEAD = """# Options

`=` may be left out. Strings may be written without quotes where they are one word. An interval is a string such as
`'10s'`, `'1 min'` or `'00:00:30'`. "Secret or string" takes `SECRET name`, a string, or `'a:' || SECRET name`; how to
make a secret is in the [guide](guide.md#secrets). `USERNAME` of a connection is another name of `USER`.
"""
_VALUES = {
    "text": "string",
    "secret": "`SECRET name`",
    "text or secret": "secret or string",
    "list": "list of strings",
    "numbers": "list of numbers",
    "map": "`MAP['key' => 'value']`",
}


def page(registry: Registry) -> str:
    """Return the page: each type of connections, clusters, each kind of sources and sinks."""
    return "\n".join([_HEAD, *_sections(registry)])


def _sections(registry: Registry) -> Iterator[str]:
    for name, connection in sorted(registry.connections.items()):
        yield _section(f"CREATE CONNECTION … TO {name}", connection.about, connection.options)
    yield _section("CREATE CLUSTER", "", ClusterOptions)
    for name, source in sorted(registry.sources.items()):
        yield _section(f"CREATE SOURCE … FROM {name}", source.about, source.options, source.with_options)
    for name, format_ in sorted(registry.formats.items()):
        if format_.options is not None:
            yield _section(f"FORMAT {name}", "", format_.options)
    for name, sink in sorted(registry.sinks.items()):
        yield _section(f"CREATE SINK … INTO {name} CONNECTION", sink.about, sink.options, sink.with_options)


def _section(title: str, about: str, options: type | None, with_options: type | None = None) -> str:
    parts = [f"## {title}\n"]
    if options is not None:
        parts.append(_table("option", options))
    if with_options is not None:
        parts.append(_table("in `WITH (…)`", with_options))
    if about:
        parts.append(f"{about}\n")
    return "\n".join(parts)


def _table(head: str, into: type) -> str:
    defaults = {label(field): field.default for field in dataclasses.fields(into)}
    rows = [f"| `{each.label}` | {_value(each)} | {_told(each, defaults[each.label])} |" for each in offered(into)]
    return "\n".join([f"| {head} | value | |", "|---|---|---|", *rows, ""])


def _value(option: OptionHelp) -> str:
    if option.choices:
        return ", ".join(f"`'{choice}'`" for choice in option.choices)
    return _VALUES.get(option.takes, option.takes)


def _told(option: OptionHelp, default: object) -> str:
    parts = [option.help] if option.help else []
    if option.required:
        parts.append("required")
    match default:
        case bool():
            parts.append(f"default {str(default).lower()}")
        case int() | float():
            parts.append(f"default {default}")
        case str():
            parts.append(f"default `'{default}'`")
        case timedelta():
            parts.append(f"default `'{default // timedelta(seconds=1)}s'`")
    return "; ".join(parts)
