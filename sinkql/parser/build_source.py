"""The trees of CREATE SOURCE, and of CREATE TABLE from a source → ast."""

from __future__ import annotations

import re

from lark import Token, Tree

from sinkql import ast
from sinkql.parser import tree, value
from sinkql.parser.build_format import envelope, formats, includes, webhook
from sinkql.parser.tree import Node, child, children, ident, only, span, the_name, the_token, words
from sinkql.words import RESERVED

_PLAIN = re.compile(r"[a-z_\u0080-\U0010ffff][a-z0-9_$\u0080-\U0010ffff]*")


def source(node: Node) -> ast.CreateSource:
    """Return the statement of a `create_source` node."""
    origin = children(node, "files", "load_generator", "external", "webhook")[0]
    if origin.data == "webhook":
        return _webhook(node, origin)
    generator = child(origin, "generator")
    columns = child(node, "source_columns")
    primary_key = child(columns, "primary_key") if columns is not None else None
    key_format, value_format = formats(node)
    envelope_, inline_errors = envelope(node)
    subsources = child(node, "subsources")
    return ast.CreateSource(
        name=the_name(node),
        kind=words(only(origin)),
        options=value.options(child(origin, "options")),
        columns=tuple(column(each) for each in children(columns, "column")) if columns is not None else (),
        primary_key=tree.idents(only(primary_key)) if primary_key is not None else (),
        cluster=tree.cluster(node),
        connection=tree.child_name(origin, "source_connection"),
        generator=words(generator) if generator is not None else None,
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
        kind_span=span(only(origin)),
    )


def _webhook(node: Node, origin: Node) -> ast.CreateSource:
    format_, include, check = webhook(origin)
    return ast.CreateSource(
        name=the_name(node),
        kind="WEBHOOK",
        cluster=tree.cluster(node),
        format=format_,
        include=include,
        check=check,
        if_not_exists=child(node, "if_not_exists") is not None,
        span=span(node),
        kind_span=span(only(origin)),
    )


def _subsources(node: Node) -> ast.Subsources:
    schemas = child(node, "columns")
    return ast.Subsources(
        tuple(reference(each) for each in children(node, "reference")),
        tree.idents(schemas) if schemas is not None else (),
        span(node),
    )


def reference(node: Node) -> ast.Reference:
    """Return the upstream table that a `reference` node is, and its name here."""
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
    plain = _PLAIN.fullmatch(name) and name == name.lower() and name.upper() not in RESERVED | {"MAP"}
    return str(name) if plain else '"' + name.replace('"', '""') + '"'
