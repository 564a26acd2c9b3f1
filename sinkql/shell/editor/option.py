"""Whose options → their labels and values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sinkql import logical
from sinkql.connector_api.option_help import OptionHelp, offered
from sinkql.errors import SinkqlError
from sinkql.local_path import in_project
from sinkql.parser.assist.completion import OptionPlace
from sinkql.planner.item.cluster import ClusterOptions
from sinkql.planner.name import as_name, short_name
from sinkql.session import Session


def labels(options: OptionPlace, session: Session) -> Iterator[tuple[str, str]]:
    """Yield the labels that are not given yet, required ones first, ready for their value."""
    found = [each for each in _options(options, session) if each.label not in options.taken]
    for each in sorted(found, key=lambda option: not option.required):
        meta = " | ".join(each.choices) if each.choices else each.takes
        yield each.label if options.named else f"{each.label} = ", f"{meta}, required" if each.required else meta


def values(options: OptionPlace, label: str, session: Session, typed: str) -> Iterator[tuple[str, str]]:
    """Yield what an option's value may be that begins with what is typed."""
    option = next((each for each in _options(options, session) if each.label == label), None)
    if option is None:
        return
    if option.choices:
        yield from ((f"'{choice}'", label.lower()) for choice in option.choices)
    if option.local_path:
        yield from _paths(typed, session.catalog.project)
    if typed.startswith("'"):
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


def _paths(typed: str, project: Path) -> Iterator[tuple[str, str]]:
    """Yield the files and folders that a string may go on with; the string of a folder stays open for what is in it.

    Relative paths begin in `project`.
    """
    begun = typed.removeprefix("'").replace("''", "'")
    folder = begun[: begun.rfind("/") + 1]
    try:
        with os.scandir(in_project(folder, project)) as found:
            entries = sorted((each.name, each.is_dir()) for each in found)
    except (OSError, SinkqlError):
        return  # no folder that can be read: nothing to offer
    for name, is_folder in entries:
        if not name.startswith(".") or begun[len(folder) :].startswith("."):
            path = f"{folder}{name}".replace("'", "''")
            yield (f"'{path}/", "folder") if is_folder else (f"'{path}'", "file")


def _connections(label: str, session: Session) -> Iterator[tuple[str, str]]:
    """Yield the connections of the type that a label names, as in AWS CONNECTION and SSH TUNNEL."""
    kind = label.removesuffix(" CONNECTION")
    for name in session.catalog.plans.names("CONNECTION"):
        item = session.catalog.plans.item(name)
        if isinstance(item, logical.Connection) and item.kind == kind:
            yield short_name(name, session.catalog.plans), f"{kind} connection"


def _options(options: OptionPlace, session: Session) -> tuple[OptionHelp, ...]:
    dataclass_ = _dataclass(options, session)
    return offered(dataclass_)


def _dataclass(options: OptionPlace, session: Session) -> type | None:
    registry, kind = session.catalog.registry, options.kind
    if options.altered is not None and options.made in ("CONNECTION", "SINK"):
        kind = _kind_of(options.altered, session)
    match options.made:
        case "CLUSTER":
            return ClusterOptions
        case "CONNECTION":
            connection = registry.connections.get(kind or "")
            return connection.options if connection is not None else None
        case "SOURCE" if options.format is not None:
            format_ = registry.formats.get(options.format)
            return format_.options if format_ is not None else None
        case "SOURCE":
            source = registry.sources.get(kind or "")
            return (source.with_options if options.behind_with else source.options) if source is not None else None
        case "SINK":
            sink = registry.sinks.get(kind or "")
            behind_with = options.behind_with or options.altered is not None
            return (sink.with_options if behind_with else sink.options) if sink is not None else None
    return None


def _kind_of(name: str, session: Session) -> str | None:
    """Return the kind of the connection or sink of that name, if there is one."""
    plans = session.catalog.plans
    item = plans.item(plans.resolve(as_name(name)))
    return item.kind if isinstance(item, logical.Connection | logical.Sink) else None
