"""Whose options → their labels and values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from sinkql import logical
from sinkql.connector.option_help import OptionHelp, option_help
from sinkql.connector.registry import Registry
from sinkql.parser.candidate import Options
from sinkql.planner.cluster import ClusterOptions
from sinkql.planner.name import short_name
from sinkql.session import Session

_CONNECTION = re.compile(r"(?:CREATE CONNECTION .*(?:TO|FOR)|ALTER CONNECTION) (.*?)(?: \()?")
_SINK = re.compile(r"CREATE SINK .*INTO (.*?) CONNECTION \? \(")
_SINK_WITH = re.compile(r"(?:CREATE SINK .*INTO (.*?) CONNECTION .*WITH|ALTER SINK .*(?:SET|RESET)) \(")
_SOURCE = re.compile(r"CREATE SOURCE .*FROM (FILES|LOAD GENERATOR|[A-Z ]+?)(?: [A-Z ]+)?(?: CONNECTION \?)? \(")
_SOURCE_WITH = re.compile(r"CREATE SOURCE .*FROM (FILES|LOAD GENERATOR|[A-Z ]+?)\b.* WITH \(")
_DEFAULT_SINK = "ICEBERG CATALOG"


def labels(options: Options, session: Session) -> Iterator[tuple[str, str]]:
    """Yield the labels that are not given yet, required ones first, ready for their value."""
    found = [each for each in _options(options.shape, session.catalog.registry) if each.label not in options.taken]
    for each in sorted(found, key=lambda option: not option.required):
        meta = " | ".join(each.choices) if each.choices else each.takes
        named = options.shape.endswith(("RESET (", "DROP ("))
        yield each.label if named else f"{each.label} = ", f"{meta}, required" if each.required else meta


def values(options: Options, label: str, session: Session, *, quoted: bool) -> Iterator[tuple[str, str]]:
    """Yield what an option's value may be."""
    option = next((each for each in _options(options.shape, session.catalog.registry) if each.label == label), None)
    if option is None:
        return
    if option.choices:
        yield from ((f"'{choice}'", label.lower()) for choice in option.choices)
    if quoted:
        return
    match option.takes:
        case "boolean":
            yield from (("true", ""), ("false", ""))
        case "secret" | "text or secret":
            secrets = session.catalog.plans.names("SECRET")
            yield from ((f"SECRET {short_name(name, session.catalog.plans)}", "secret") for name in secrets)
        case "name":
            yield from _connections(label, session)
        case _:
            pass


def _connections(label: str, session: Session) -> Iterator[tuple[str, str]]:
    """Yield the connections of the type that a label names, as in AWS CONNECTION and SSH TUNNEL."""
    kind = label.removesuffix(" CONNECTION")
    for name in session.catalog.plans.names("CONNECTION"):
        item = session.catalog.plans.item(name)
        if isinstance(item, logical.Connection) and item.kind == kind:
            yield short_name(name, session.catalog.plans), f"{kind} connection"


def _options(shape: str, registry: Registry) -> tuple[OptionHelp, ...]:
    dataclasses = [each for each in _dataclasses(shape, registry) if each is not None]
    return tuple(option for each in dataclasses for option in _help(each))


@cache
def _help(into: type) -> tuple[OptionHelp, ...]:
    return option_help(into)


def _dataclasses(shape: str, registry: Registry) -> Iterator[type | None]:
    if shape.startswith(("CREATE CLUSTER", "ALTER CLUSTER")):
        yield ClusterOptions
    elif found := _SINK.fullmatch(shape):
        sink = registry.sinks.get(found[1])
        yield sink.takes if sink is not None else None
    elif found := _SINK_WITH.fullmatch(shape):
        sink = registry.sinks.get(found[1] or _DEFAULT_SINK)
        yield sink.takes_with if sink is not None else None
    elif found := _SOURCE_WITH.fullmatch(shape):
        source = registry.sources.get(found[1])
        yield source.takes_with if source is not None else None
    elif found := _SOURCE.fullmatch(shape):
        source = registry.sources.get(found[1])
        yield source.takes if source is not None else None
    elif found := _CONNECTION.fullmatch(shape):
        connection = registry.connections.get(found[1])
        yield connection.takes if connection is not None else None
