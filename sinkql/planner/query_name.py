"""What a select item without alias is called, as in Postgres."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sinkql.planner import types
from sinkql.planner.query_scope import identifier
from sinkql.planner.query_syntax import Syntax

_TYPES = {
    "boolean": "bool", "smallint": "int2", "integer": "int4", "bigint": "int8", "real": "float4",
    "double precision": "float8",
}  # fmt: skip
_NODES: dict[type, str] = {
    exp.Extract: "extract", exp.Substring: "substring", exp.StrPosition: "position", exp.Overlay: "overlay",
    exp.AtTimeZone: "timezone", exp.Boolean: "bool", exp.Interval: "interval", exp.Array: "array",
}  # fmt: skip
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def output_name(syntax: Syntax, node: Any) -> str:
    """Return the name of a select item."""
    if isinstance(node, exp.Alias):
        return identifier(node.args["alias"])
    return _name(syntax, node)[0] or "?column?"


def _name(syntax: Syntax, node: Any) -> tuple[str | None, bool]:
    """Return a name and whether it is one of its own, which a cast around it keeps."""
    match node:
        case exp.Column():
            return identifier(node.this), True
        case exp.Paren() | exp.Collate() | exp.Filter():
            return _name(syntax, node.this)
        case exp.Anonymous():
            return str(node.this if isinstance(node.this, str) else node.this.name).lower(), True
        case exp.Trim():
            return _TRIMS.get(node.args.get("position") or "", "btrim"), True
        case exp.Case():
            default = node.args.get("default")
            name, own = _name(syntax, default) if default is not None else (None, False)
            return (name, True) if own else ("case", False)
        case exp.Cast():
            name, own = _name(syntax, node.this)
            return (name, True) if own else (_type_name(syntax.written(node.args["to"])), False)
        case _:
            return _NODES.get(type(node)), type(node) in _NODES and not isinstance(node, exp.Boolean | exp.Interval)


def _type_name(written: str) -> str | None:
    try:
        found = types.parse_type_name(written)
    except ValueError:
        return None
    return _TYPES.get(found[0].name, found[0].name) if found else None
