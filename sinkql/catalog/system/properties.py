"""Extract the details of a planned item that the system relations show, as JSON-able data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sinkql import ast, logical
from sinkql.explain.expression import sql
from sinkql.planner.item.source import pushed_source
from sinkql.planner.item.table import default, rules
from sinkql.planner.name import qualified_name

FindId = Callable[[str], str | None]
"""Return the id of an item by its full name."""


def details(item: logical.Item, statement: ast.Create, facts: logical.Facts, find_id: FindId) -> dict[str, Any]:
    """Return the item's details: its type, columns, ids of items that it uses and so on; never a secret."""
    match item:
        case logical.Database() | logical.Schema() | logical.Secret():
            return {}
        case logical.Connection():
            keys = {"public_keys": facts["public_keys"]} if "public_keys" in facts else {}
            return {"type": item.kind.lower().replace(" ", "-"), "options": _plain_options(item, find_id), **keys}
        case logical.Cluster():
            size = item.master if item.master.startswith("local") else None
            state = {"path": item.state.path, "connection_id": _id_of(item.state, find_id)} if item.state else None
            return {"size": size, "master": item.master, "state": state}
        case logical.Source():
            return _source(item, statement, find_id)
        case logical.View():
            return _view(item, statement, find_id)
        case logical.Index():
            return _index(item, statement, find_id)
        case logical.Sink():
            return _sink(item, statement, facts, find_id)


def _id_of(state: logical.StatePath, find_id: FindId) -> str | None:
    return find_id(state.connection) if state.connection is not None else None


def _plain_options(item: logical.Connection, find_id: FindId) -> dict[str, Any]:
    """Return plain options, and the ids of secrets and connections in options; skip texts with secrets."""
    options: dict[str, Any] = {}
    for name, value in item.options.items():
        match value:
            case str() | int():
                options[name] = value
            case list() if all(isinstance(element, str) for element in value):
                options[name] = value
            case {"secret_text": [{"secret": secret}]}:
                options[f"{name}_secret_id"] = find_id(secret)
            case {"connection": connection}:
                options[f"{name}_id"] = find_id(connection)
            case _:
                pass
    return options


def _source(item: logical.Source, statement: ast.Create, find_id: FindId) -> dict[str, Any]:
    if isinstance(statement, ast.CreateTable):
        return _table(item, statement)
    if isinstance(statement, ast.CreateProgress):
        return {"type": "progress", "columns": _columns(item.shape)}
    if isinstance(statement, ast.CreateTableFrom) and statement.source is not None:
        source = find_id(qualified_name(*(part.value for part in statement.source.parts)))
        details_of_table = {"type": "subsource", "source_id": source, "columns": _columns(item.shape)}
        captured = item.options.get("table")
        if isinstance(captured, dict):
            details_of_table |= {"upstream_kind": item.kind, "upstream": captured["name"]}
        return details_of_table
    if isinstance(statement, ast.CreateTableFrom):
        statement = pushed_source(statement)
    assert isinstance(statement, ast.CreateSource)
    tuning = item.options.get("tuning", {})
    return {
        "type": "load-generator" if item.kind.startswith("LOAD GENERATOR ") else item.kind.lower().replace(" ", "-"),
        "connection_id": find_id(item.connection) if item.connection else None,
        "envelope_type": (statement.envelope or "none").lower(),
        "value_format": statement.format.name.lower() if statement.format else None,
        "key_format": statement.key_format.name.lower() if statement.key_format else None,
        "cluster_id": _cluster(statement.cluster, find_id),
        "columns": _columns(item.shape),
        "captured_as": item.options.get("source_id"),
        "options": {name: value for name, value in item.options.items() if isinstance(value, str | int)},
        "url": tuning.get("options", {}).get("url"),
        "group": tuning.get("group"),
    }


def _table(item: logical.Source, statement: ast.CreateTable) -> dict[str, Any]:
    """Return a table's columns with their defaults, and its constraints with the names that Postgres gives."""
    defaults = {column.name.value: default(column) for column in statement.columns}
    columns = _columns(item.shape)
    for column in columns:
        written = defaults.get(column["name"])
        column["default"] = written.text if written is not None else None
    table = statement.name.parts[-1].value
    constraints = [
        {"name": f"{table}_pkey", "type": "p", "columns": names}
        if kind == "PRIMARY KEY"
        else {"name": f"{table}_{'_'.join(names)}_key", "type": "u", "columns": names}
        for kind, names in rules(statement)
    ]
    return {"columns": columns, "constraints": constraints}


def _view(item: logical.View, statement: ast.Create, find_id: FindId) -> dict[str, Any]:
    assert isinstance(statement, ast.CreateView)
    return {
        "definition": statement.query.text,
        "cluster_id": _cluster(statement.cluster, find_id),
        "columns": _columns(item.shape),
    }


def _index(item: logical.Index, statement: ast.Create, find_id: FindId) -> dict[str, Any]:
    assert isinstance(statement, ast.CreateIndex)
    key = [sql(term) for term in item.key] if statement.key is None else [term.text.strip() for term in statement.key]
    return {"on_id": find_id(item.relation), "cluster_id": find_id(item.cluster), "key": f"{{{','.join(key)}}}"}


def _sink(item: logical.Sink, statement: ast.Create, facts: logical.Facts, find_id: FindId) -> dict[str, Any]:
    assert isinstance(statement, ast.CreateSink)
    return {
        "type": item.kind.split()[0].lower(),
        "connection_id": find_id(item.connection),
        "envelope_type": item.mode.value if item.changelog or item.mode is not logical.SinkMode.APPEND else "none",
        **_formats(statement),
        "cluster_id": find_id(item.cluster),
        "options": {name: value for name, value in item.options.items() if isinstance(value, str | int)},
        "sink_id": facts.get("sink_id"),
        "destination": _destination(item, find_id),
    }


def _formats(statement: ast.CreateSink) -> dict[str, str]:
    """Return the formats of messages; `format` is set if keys and values have the same one."""
    if statement.format is None or statement.format.name == "PARQUET":
        return {}
    value, key = statement.format, statement.key_format or (statement.format if statement.key is not None else None)
    formats = {"value_format": value.name.lower()}
    if key is not None:
        formats["key_format"] = key.name.lower()
    return {**formats, "format": value.name.lower()} if key is None or key.name == value.name else formats


def _destination(item: logical.Sink, find_id: FindId) -> list[Any] | None:
    """Return a sink's destination as `sinkql.catalog.memory.Place`, and whether the sink shares it."""
    place = item.destination
    return [find_id(item.connection), place.kind, place.path, place.shared] if place is not None else None


def _columns(shape: logical.Shape) -> list[dict[str, Any]]:
    return [
        {"name": column.name, "type": str(column.type), "nullable": int(column.nullable)} for column in shape.columns
    ]


def _cluster(cluster: ast.Ident | None, find_id: FindId) -> str | None:
    return find_id(qualified_name(cluster.value)) if cluster is not None else None
