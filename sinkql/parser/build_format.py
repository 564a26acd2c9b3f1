"""The trees of formats, of what INCLUDE adds, and of envelopes → ast."""

from __future__ import annotations

from dataclasses import replace

from lark import Token, Tree

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.parser import tree, value
from sinkql.parser.tree import Node, child, children, ident, only, span, the_name, the_token, token, words

_STRATEGIES = {"strategy_id": "ID", "strategy_latest": "LATEST", "strategy_inline": "INLINE"}


def formats(node: Node) -> tuple[ast.Format | None, ast.Format | None]:
    """Return a statement's formats: of the keys, if it has an own one, and of the values."""
    found = child(node, "formats")
    if found is None:
        return None, None
    given = [format_(each) for each in found.children if isinstance(each, Tree)]
    if len(given) > 1:
        return given[0], given[1]
    return None, replace(given[0], span=span(found))


def format_(node: Node) -> ast.Format:
    """Return the format that a node is; raises SQ1026 and SQ1027 for what CSV cannot have."""
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
            return ast.Format(words(node), span=span(node))


def _csv(node: Node) -> ast.Format:
    header, count, delimiter = child(node, "header"), child(node, "column_count"), child(node, "delimiter")
    names = child(header, "columns") if header is not None else None
    return ast.Format(
        "CSV",
        header=header is not None,
        names=tree.idents(names) if names is not None else (),
        column_count=_count(the_token(count, "NUMBER")) if count is not None else None,
        delimiter=_delimiter(the_token(delimiter, "STRING")) if delimiter is not None else None,
        span=span(node),
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


def _schema(node: Node) -> ast.Schema:
    texts = [str(each) for each in tree.tokens(node, "STRING")]
    if node.data == "message":
        return ast.Schema(message=texts[0], text=texts[1], span=span(node))
    if node.data == "inline_schema":
        return ast.Schema(text=texts[0], options=value.options(child(node, "options")), span=span(node))
    confluent = child(node, "confluent")
    if confluent is None:
        return ast.Schema(
            words(children(node, "glue")[0]),
            the_name(node),
            value.options(child(node, "options")),
            span=span(node),
        )
    return ast.Schema(
        words(children(confluent, "confluent_kind")[0]),
        the_name(confluent),
        _schema_options(child(confluent, "schema_options")),
        _strategy(child(confluent, "key_strategy")),
        _strategy(child(confluent, "value_strategy")),
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


def _strategy(node: Node | None) -> ast.Phrase | None:
    if node is None:
        return None
    found = only(node)
    inner = next((each for each in found.children if isinstance(each, Tree)), None)
    return ast.Phrase(_STRATEGIES[found.data], value.value(inner) if inner is not None else None, span=span(found))


def includes(node: Node) -> tuple[ast.Include, ...]:
    """Return what the INCLUDE clause of a source or a table adds."""
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
    """Return the envelope of a source or a table, and where UPSERT puts what it cannot decode."""
    found = child(node, "envelope")
    if found is None:
        return None, None
    errors = child(found, "inline_errors")
    if errors is None:
        return words(only(found)), None
    alias = token(errors, "NAME")
    return words(only(found)), ast.InlineErrors(ident(alias) if alias is not None else None, span(errors))


def webhook(node: Node) -> tuple[ast.Format, tuple[ast.Include, ...], ast.Check | None]:
    """Return what a `webhook` node says: the body's format, the headers to include, and the check."""
    body, check = children(node, "json", "body_word")[0], child(node, "webhook_check")
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
