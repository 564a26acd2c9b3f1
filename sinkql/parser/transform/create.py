"""Transform the trees of CREATE SOURCE, CREATE TABLE … FROM, CREATE VIEW and CREATE SINK.

Every form of a sink becomes the same statement.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sinkql import ast
from sinkql.errors import SinkqlError, nearest
from sinkql.keywords import PLAIN_NAME, RESERVED, quoted
from sinkql.parser.read import tree
from sinkql.parser.read.tree import (
    Node,
    Token,
    child,
    children,
    ident,
    only,
    span,
    the_child,
    the_name,
    the_token,
    token,
    words,
)
from sinkql.parser.transform import value

_STRATEGIES = {"strategy_id": "ID", "strategy_latest": "LATEST", "strategy_inline": "INLINE"}
_PLAIN = re.compile(PLAIN_NAME)


def source(node: Node) -> ast.CreateSource:
    """Return the statement of a `create_source` node."""
    origin = children(node, "origin", "pushed")[0]
    if origin.data == "pushed":
        return _pushed_source(node, origin)
    kind = the_token(origin, "KIND")
    columns = child(node, "source_columns")
    primary_key = child(columns, "primary_key") if columns is not None else None
    key_format, value_format = formats(node)
    envelope_, inline_errors = envelope(node)
    subsources = child(node, "subsources")
    return ast.CreateSource(
        name=the_name(node),
        kind=str(kind),
        options=value.options(child(origin, "options")),
        columns=tuple(column(each) for each in children(columns, "column")) if columns is not None else (),
        primary_key=tree.idents(only(primary_key)) if primary_key is not None else (),
        cluster=tree.cluster(node),
        connection=tree.child_name(origin, "source_connection"),
        format=value_format,
        key_format=key_format,
        include=includes(node),
        envelope=envelope_,
        inline_errors=inline_errors,
        subsources=_subsources(subsources) if subsources is not None else None,
        progress=tree.child_name(node, "progress"),
        with_options=value.with_options(node),
        if_not_exists=child(node, "if_not_exists") is not None,
        span=span(node),
        kind_span=span(kind),
    )


def _pushed_source(node: Node, origin: Node) -> ast.CreateSource:
    format_, include, check = pushed(origin)
    kind = the_token(origin, "KIND")
    return ast.CreateSource(
        name=the_name(node),
        kind=str(kind),
        pushed=True,
        cluster=tree.cluster(node),
        format=format_,
        include=include,
        check=check,
        with_options=value.with_options(origin),
        if_not_exists=child(node, "if_not_exists") is not None,
        span=span(node),
        kind_span=span(kind),
    )


def _subsources(node: Node) -> ast.Subsources:
    schemas = child(node, "columns")
    return ast.Subsources(
        tuple(reference(each) for each in children(node, "reference")),
        tree.idents(schemas) if schemas is not None else (),
        span(node),
    )


def reference(node: Node) -> ast.Reference:
    """Return the upstream table of a `reference` node, and its name in SinkQL."""
    found = [tree.name(each) for each in children(node, "name")]
    return ast.Reference(found[0], found[1] if len(found) > 1 else None, span(node))


def column(node: Node) -> ast.ColumnDef:
    """Return a column of a source."""
    type_ = child(node, "type")
    return ast.ColumnDef(
        name=ident(the_token(node, "NAME")),
        type=type_name(type_) if type_ is not None else None,
        not_null=child(node, "not_null") is not None,
        span=span(node),
    )


def type_name(node: Node) -> ast.TypeName:
    """Return the data type of a `type` node."""
    return ast.TypeName(_type_text(node), span(node))


def _type_text(node: Node) -> str:
    text = ""
    for part in node.children:
        match part:
            case Token():
                text += f" {part}"
            case Node(data="type_name"):
                text += ".".join(_type_part(each) for each in tree.tokens(part, "NAME"))
            case Node(data="type_map"):
                text += f"map[{'=>'.join(_type_text(each) for each in children(part, 'type'))}]"
            case Node(data="type_record"):
                text += f"record({', '.join(map(_field_text, children(part, 'type_field')))})"
            case Node(data="type_arguments"):
                text += "(" + ",".join(str(each) for each in part.children) + ")"
            case Node(data="type_zone"):
                text += " with time zone"
            case _:
                text += "[]"
    return text


def _field_text(field: Node) -> str:
    type_ = the_child(field, "type")
    rule = " NOT NULL" if child(field, "not_null") is not None else ""
    return f"{_type_part(the_token(field, 'NAME'))} {_type_text(type_)}{rule}"


def _type_part(name: Token) -> str:
    """Return a type's name, in quotes if it would be read as something else."""
    plain = _PLAIN.fullmatch(name) and name == name.lower() and name.upper() not in RESERVED | {"MAP"}
    return str(name) if plain else quoted(name)


def formats(node: Node) -> tuple[ast.Format | None, ast.Format | None]:
    """Return a statement's formats: of the keys, if separate, and of the values."""
    found = child(node, "formats")
    if found is None:
        return None, None
    given = [format_(each) for each in found.children if isinstance(each, Node)]
    if len(given) > 1:
        return given[0], given[1]
    return None, replace(given[0], span=span(found))


def format_(node: Node) -> ast.Format:
    """Return the format of a node; raises SQ1026 and SQ1027 for invalid arguments of CSV."""
    match node.data:
        case "json":
            return ast.Format("JSON", array=child(node, "array") is not None, span=span(node))
        case "csv":
            return _csv(node)
        case "regex":
            return ast.Format("REGEX", pattern=str(the_token(node, "STRING")), span=span(node))
        case "avro" | "protobuf":
            return ast.Format(node.data.upper(), schema=_schema(only(node)), span=span(node))
        case _:
            options = value.options(child(node, "options"))
            return ast.Format(str(the_token(node, "FORMAT_NAME")), options=options, span=span(node))


def _csv(node: Node) -> ast.Format:
    header, count, delimiter = child(node, "header"), child(node, "column_count"), child(node, "delimiter")
    names = child(node, "columns")
    return ast.Format(
        "CSV",
        header=header is not None,
        names=tree.idents(names) if names is not None else (),
        column_count=_count(the_token(count, "NUMBER")) if count is not None else None,
        delimiter=_delimiter(the_token(delimiter, "STRING")) if delimiter is not None else None,
        options=value.options(child(node, "csv_options")),
        span=span(node),
    )


def _count(found: Token) -> int:
    if not found.isdecimal() or not 0 < int(found[:_LONG]) <= _MOST_COLUMNS:
        raise SinkqlError(
            "SQ1026",
            f"expected a number of columns from 1 to {_MOST_COLUMNS}, found {found}",
            span(found),
            hint="Write CSV WITH 3 COLUMNS.",
        )
    return int(found)


_MOST_COLUMNS = 1600  # the limit of a Postgres table
_LONG = 20


def _delimiter(found: Token) -> str:
    if len(found.encode()) != 1:
        raise SinkqlError(
            "SQ1027",
            "the delimiter must be a single ASCII character",
            span(found),
            hint="Write DELIMITED BY ';', or DELIMITED BY E'\\t' for a tab.",
        )
    return str(found)


def _schema(node: Node) -> ast.Schema:
    texts = [str(each) for each in tree.tokens(node, "STRING")]
    if node.data == "message":
        return ast.Schema(message=texts[0], text=texts[1], span=span(node))
    if node.data == "inline_schema":
        return ast.Schema(text=texts[0], options=value.options(child(node, "options")), span=span(node))
    seed = child(node, "seed")
    return ast.Schema(
        str(the_token(node, "KIND")),
        the_name(node),
        _schema_options(child(node, "schema_options")),
        _strategy(child(node, "key_strategy")),
        _strategy(child(node, "value_strategy")),
        _seed(child(seed, "seed_key")) if seed is not None else None,
        _seed(child(seed, "seed_value")) if seed is not None else None,
        span=span(node),
    )


def _schema_options(node: Node | None) -> tuple[ast.Option, ...]:
    found = children(node, "option", "doc_on") if node is not None else []
    return tuple(value.option(each) if each.data == "option" else _doc_on(each) for each in found)


def _doc_on(node: Node) -> ast.Option:
    label, name, text = the_token(node, "DOC_ON"), children(node, "name")[0], the_token(node, "STRING")
    written = ast.Phrase("=", ast.Text(str(text), span(text)), span=span(text))
    about = ast.Phrase("", ast.Word(ast.Name(tree.idents(name), span(name)), span(name)), then=written, span=span(node))
    return ast.Option(str(label), about, span(node), span(label))


def _seed(node: Node | None) -> ast.Seed | None:
    if node is None:
        return None
    message = child(node, "seed_message")
    named = str(the_token(message, "STRING")) if message is not None else None
    return ast.Seed(str(the_token(node, "STRING")), named, span(node))


def _strategy(node: Node | None) -> ast.Phrase | None:
    if node is None:
        return None
    found = only(node)
    inner = next((each for each in found.children if isinstance(each, Node)), None)
    return ast.Phrase(_STRATEGIES[found.data], value.value(inner) if inner is not None else None, span=span(found))


def includes(node: Node) -> tuple[ast.Include, ...]:
    """Return the metadata in the INCLUDE clause of a source or a table."""
    found = child(node, "include")
    return tuple(_included(each) for each in children(found, "included")) if found is not None else ()


def _included(node: Node) -> ast.Include:
    alias, kind, header = token(node, "NAME"), child(node, "included_kind"), token(node, "STRING")
    return ast.Include(
        words(kind) if kind is not None else "HEADER",
        ident(alias) if alias is not None else None,
        str(header) if header is not None else None,
        binary=child(node, "binary") is not None,
        span=span(node),
    )


def envelope(node: Node) -> tuple[str | None, ast.InlineErrors | None]:
    """Return the envelope of a source or a table, and the column of UPSERT for rows that it cannot decode."""
    found = child(node, "envelope")
    if found is None:
        return None, None
    errors = child(found, "inline_errors")
    if errors is None:
        return words(only(found)), None
    alias = token(errors, "NAME")
    return words(only(found)), ast.InlineErrors(ident(alias) if alias is not None else None, span(errors))


def pushed(node: Node) -> tuple[ast.Format, tuple[ast.Include, ...], ast.Check | None]:
    """Return the format of the body, the headers to include, and the check of a `pushed` node."""
    body, check = children(node, "json", "named")[0], child(node, "webhook_check")
    return (
        format_(body),
        tuple(_header(each) for each in children(node, "webhook_include")),
        _check(check) if check is not None else None,
    )


def _header(node: Node) -> ast.Include:
    header, alias = token(node, "STRING"), token(node, "NAME")
    if header is not None and alias is not None:
        binary = child(node, "binary") is not None
        return ast.Include("HEADER", ident(alias), str(header), binary=binary, span=span(node))
    filters = tuple(
        ast.HeaderFilter(str(the_token(each, "STRING")), excluded=child(each, "excluded") is not None)
        for each in children(node, "header_filter")
    )
    return ast.Include("HEADERS", filters=filters, span=span(node))


def _check(node: Node) -> ast.Check:
    inputs = child(node, "check_inputs")
    return ast.Check(
        tree.expression(the_token(node, "EXPRESSION")),
        tuple(_check_input(each) for each in children(inputs, "check_input")) if inputs is not None else (),
        span(node),
    )


def _check_input(node: Node) -> ast.CheckInput:
    kind, alias = child(node, "check_kind"), token(node, "NAME")
    return ast.CheckInput(
        words(kind) if kind is not None else "SECRET",
        tree.child_name(node),
        ident(alias) if alias is not None else None,
        binary=child(node, "binary") is not None,
        span=span(node),
    )


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
    """Return the statement of a `create_sink` node. Raises SQ1021 for a repeated clause."""
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
