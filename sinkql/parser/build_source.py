"""The tree of CREATE SOURCE → ast."""

from __future__ import annotations

import re

from lark import Token, Tree

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.parser import tree, value
from sinkql.parser.tree import Node, child, children, ident, only, span, the_name, the_token, token, words
from sinkql.words import RESERVED


def source(node: Node) -> ast.CreateSource:
    """Return the statement of a `create_source` node."""
    origin = children(node, "files", "load_generator")[0]
    generator = child(origin, "generator")
    columns = child(node, "source_columns")
    primary_key = child(columns, "primary_key") if columns is not None else None
    include, envelope = child(node, "include"), child(node, "envelope")
    return ast.CreateSource(
        name=the_name(node),
        kind="FILES" if origin.data == "files" else "LOAD GENERATOR",
        options=value.options(child(origin, "options")),
        columns=tuple(column(each) for each in children(columns, "column")) if columns is not None else (),
        primary_key=tree.idents(only(primary_key)) if primary_key is not None else (),
        cluster=tree.cluster(node),
        connection=tree.child_name(origin, "source_connection"),
        generator=words(generator) if generator is not None else None,
        format=_format(node),
        include=tuple(_included(each) for each in children(include, "included")) if include is not None else (),
        envelope=words(only(envelope)) if envelope is not None else None,
        with_options=value.with_options(node),
        if_not_exists=child(node, "if_not_exists") is not None,
        span=span(node),
        kind_span=span(only(origin)),
    )


def column(node: Node) -> ast.ColumnDef:
    """Return the column of a `column` node."""
    type_ = child(node, "type")
    return ast.ColumnDef(
        name=ident(the_token(node, "NAME")),
        type=type_name(type_) if type_ is not None else None,
        not_null=child(node, "not_null") is not None,
        span=span(node),
    )


def type_name(node: Node) -> ast.TypeName:
    """Return the data type that a `type` node is."""
    return ast.TypeName(_type_text(node), span(node))


def _type_text(node: Node) -> str:
    text = ""
    for part in node.children:
        match part:
            case Token():
                text += f" {part}"
            case Tree(data="type_name"):
                text += ".".join(_type_part(each) for each in tree.tokens(part, "NAME"))
            case Tree(data="type_map"):
                text += f"map[{'=>'.join(_type_text(each) for each in children(part, 'type'))}]"
            case Tree(data="type_arguments"):
                text += "(" + ",".join(str(each) for each in part.children) + ")"
            case Tree(data="type_zone"):
                text += " with time zone"
            case _:
                text += "[]"
    return text


def _type_part(name: Token) -> str:
    """Return a type's name, in quotes if it would read as something else."""
    plain = re.fullmatch(r"[a-z_\u0080-\U0010ffff][a-z0-9_$\u0080-\U0010ffff]*", name) and name == name.lower()
    return str(name) if plain and name.upper() not in RESERVED else '"' + name.replace('"', '""') + '"'


def _included(node: Node) -> ast.Include:
    alias = token(node, "NAME")
    return ast.Include(words(children(node, "included_kind")[0]), ident(alias) if alias else None, span(node))


def _format(node: Node) -> ast.Format | None:
    found = child(node, "format")
    if found is None:
        return None
    kind = only(found)
    match kind.data:
        case "json":
            return ast.Format("JSON", array=child(kind, "array") is not None, span=span(found))
        case "csv":
            return _csv(kind, found)
        case _:
            return ast.Format(words(kind), span=span(found))


def _csv(node: Node, clause: Node) -> ast.Format:
    header, count, delimiter = child(node, "header"), child(node, "column_count"), child(node, "delimiter")
    names = child(header, "columns") if header is not None else None
    return ast.Format(
        "CSV",
        header=header is not None,
        names=tree.idents(names) if names is not None else (),
        column_count=_count(the_token(count, "NUMBER")) if count is not None else None,
        delimiter=_delimiter(the_token(delimiter, "STRING")) if delimiter is not None else None,
        span=span(clause),
    )


def _count(found: Token) -> int:
    if not found.isdecimal() or int(found) == 0:
        raise SinkqlError(
            "SQ1026", f"expected a number of columns, found {found}", span(found), hint="Write CSV WITH 3 COLUMNS."
        )
    return int(found)


def _delimiter(found: Token) -> str:
    if len(found.encode()) != 1:
        raise SinkqlError(
            "SQ1027",
            "a delimiter is one ASCII character",
            span(found),
            hint="Write DELIMITED BY ';', or DELIMITED BY E'\\t' for a tab.",
        )
    return str(found)
