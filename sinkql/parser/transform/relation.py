"""The trees of CREATE VIEW and CREATE SINK → ast: every form of a sink becomes the same statement."""

from __future__ import annotations

from sinkql import ast
from sinkql.errors import SinkqlError, nearest
from sinkql.parser.read import tree
from sinkql.parser.read.tree import Node, child, children, ident, only, span, the_name, the_token, token, words
from sinkql.parser.transform import value
from sinkql.parser.transform.create import formats

_CLAUSES = {
    "key": "KEY",
    "mode": "MODE",
    "sink_envelope": "MODE",
    "partition_by": "PARTITION BY",
    "sort_by": "SORT BY",
    "formats": "FORMAT",
    "sink_headers": "HEADERS",
}
_CALENDAR = ("year", "month", "day", "hour")
_COUNTED = ("bucket", "truncate")
_MOST = 2**31 - 1


def view(node: Node) -> ast.CreateView:
    """Return the statement of a `create_view` node."""
    columns, place = child(node, "columns"), child(node, "view_place")
    replica = child(place, "replica") if place is not None else None
    return ast.CreateView(
        name=the_name(node),
        query=tree.query(the_token(node, "QUERY")),
        materialized=child(node, "materialized") is not None,
        columns=tree.idents(columns) if columns is not None else (),
        cluster=tree.cluster(place) if place is not None else None,
        with_options=value.with_options(node),
        if_not_exists=child(node, "if_not_exists") is not None,
        or_replace=child(node, "replaceable") is not None,
        temporary=child(node, "temporary") is not None,
        replacement=child(node, "replacement") is not None,
        replaces=tree.child_name(node, "replaces"),
        replica=ident(the_token(replica, "NAME")) if replica is not None else None,
        span=span(node),
    )


def sink(node: Node) -> ast.CreateSink:
    """Return the statement of a `create_sink` node. Raises SQ1021 for a clause that stands twice."""
    names = [tree.name(each) for each in children(node, "name")]
    return _sink(node, names[-1], names[0] if len(names) > 1 else None)


def sinks(node: Node) -> ast.CreateSinks:
    """Return the statement of a `create_sinks` node."""
    of = children(node, "tables_of_source", "listed_tables")[0]
    names = tuple(tree.name(each) for each in children(of, "name"))
    return ast.CreateSinks(_sink(node, names[0], None), names if of.data == "listed_tables" else (), span(node))


def _sink(node: Node, relation: ast.Name, name: ast.Name | None) -> ast.CreateSink:
    clauses = _clauses(node)
    target = children(node, "target")[0]
    kind = the_token(target, "KIND")
    key, mode, partition_by = clauses.get("KEY"), clauses.get("MODE"), clauses.get("PARTITION BY")
    sort_by, headers, using = clauses.get("SORT BY"), clauses.get("HEADERS"), child(target, "using_store")
    key_format, value_format = formats(node)
    options = child(target, "sink_options")
    return ast.CreateSink(
        relation=relation,
        kind=str(kind),
        connection=tree.the_name(target),
        name=name,
        options=tuple(_option(each) for each in children(options, "option", "partition_expression"))
        if options is not None
        else (),
        cluster=tree.cluster(node),
        using=_using(using) if using is not None else None,
        format=value_format,
        key_format=key_format,
        key=_key(key) if key is not None else None,
        mode=_mode(mode) if mode is not None else None,
        partition_by=tuple(_transform(each) for each in children(partition_by, "transform"))
        if partition_by is not None
        else (),
        sort_by=tuple(_sorting(each) for each in children(sort_by, "sort_term")) if sort_by is not None else (),
        with_options=value.with_options(node),
        if_not_exists=child(node, "if_not_exists") is not None,
        headers=ident(the_token(headers, "NAME")) if headers is not None else None,
        span=span(node),
        kind_span=span(kind),
    )


def _using(node: Node) -> ast.Using:
    return ast.Using(str(the_token(node, "KIND")), the_name(node), span(node))


def _option(node: Node) -> ast.Option:
    if node.data == "option":
        return value.option(node)
    label = the_token(node, "PARTITION_BY")
    expression = tree.expression(the_token(node, "EXPRESSION"))
    return ast.Option("PARTITION BY", expression, span(node), span(label))


def _clauses(node: Node) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for clause in children(node, *_CLAUSES):
        name = _CLAUSES[clause.data]
        if name in found:
            raise SinkqlError(
                "SQ1021",
                f"{_written(clause)} is given twice"
                if found[name].data == clause.data
                else "MODE and ENVELOPE are both given",
                span(clause),
                hint="Keep one of them.",
            )
        found[name] = clause
    return found


def _written(clause: Node) -> str:
    return "ENVELOPE" if clause.data == "sink_envelope" else _CLAUSES[clause.data]


def _key(node: Node) -> ast.Key:
    enforcement = child(node, "enforcement")
    enforced = enforcement is None or words(enforcement) == "ENFORCED"
    return ast.Key(tree.idents(only(node)), enforced, span(node))


def _mode(node: Node) -> ast.Mode:
    clause, *_, word = words(node).split()
    if word == "NONE":
        return ast.Mode("append", changelog=False, word=clause, span=span(node))
    return ast.Mode(word.lower(), word=clause, span=span(node))


def _transform(node: Node) -> ast.Transform:
    found, number = tree.tokens(node, "NAME"), token(node, "NUMBER")
    if len(found) == 1:
        return ast.Transform("identity", ident(found[0]), span=span(node))
    function, column = found
    if function not in _CALENDAR + _COUNTED:
        near = nearest(function, _CALENDAR + _COUNTED)
        hint = f"Did you mean {near}?" if near else "The transforms are year, month, day, hour, bucket and truncate."
        raise SinkqlError("SQ1028", f'partition transform "{function}" does not exist', span(function), hint=hint)
    if (number is not None) != (function in _COUNTED):
        wanted = f"{function}(16, {column})" if function in _COUNTED else f"{function}({column})"
        raise SinkqlError(
            "SQ1028", f"{function} takes {_takes(function)}", span(node), hint=f"Write PARTITION BY ({wanted})."
        )
    if number is None:
        return ast.Transform(str(function), ident(column), span=span(node))
    if not number.isdecimal() or int(number) == 0:
        raise SinkqlError(
            "SQ1028",
            f"{function} takes a positive whole number, found {number}",
            span(number),
            hint=f"Write PARTITION BY ({function}(16, {column})).",
        )
    if int(number) > _MOST:
        raise SinkqlError(
            "SQ1028",
            f"{function} takes a number up to {_MOST}, found {number}",
            span(number),
            hint=f"Write PARTITION BY ({function}(16, {column})).",
        )
    return ast.Transform(str(function), ident(column), int(number), span(node))


def _sorting(node: Node) -> ast.Sorting:
    direction, nulls = child(node, "sort_direction"), child(node, "sort_nulls")
    descending = direction is not None and words(direction) == "DESC"
    nulls_first = words(nulls) == "NULLS FIRST" if nulls is not None else descending
    return ast.Sorting(ident(the_token(node, "NAME")), descending, nulls_first, span(node))


def _takes(function: str) -> str:
    return "a number and a column" if function in _COUNTED else "one column"
