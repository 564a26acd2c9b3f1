"""CREATE VIEW and CREATE SINK → their canonical text."""

from __future__ import annotations

from sinkql import ast
from sinkql.printer import clause
from sinkql.printer.create import formats


def create_view(statement: ast.CreateView) -> str:
    """Return the view's text, its query as written."""
    text = statement.query.text
    head = clause.line(
        "CREATE",
        statement.or_replace and "OR REPLACE",
        statement.temporary and "TEMPORARY",
        statement.replacement and "REPLACEMENT",
        statement.materialized and "MATERIALIZED",
        "VIEW",
        statement.if_not_exists and "IF NOT EXISTS",
        clause.name(statement.name),
        statement.columns and clause.idents(statement.columns),
    )
    clauses = (
        statement.replaces and f"FOR {clause.name(statement.replaces)}",
        _place(statement),
        clause.with_clause(statement.with_options),
    )
    if "\n" in text:
        return f"{clause.clauses(head, *clauses)} AS\n{text}"
    return clause.clauses(head, *clauses, f"AS {text}")


def _place(statement: ast.CreateView) -> str:
    replica = statement.replica and f"REPLICA {clause.ident(statement.replica)}"
    if statement.cluster is None:
        return f"IN {replica}" if replica else ""
    return clause.line(clause.in_cluster(statement.cluster), replica)


def create_sink(statement: ast.CreateSink) -> str:
    """Return the sink's text: a clause a line, in the order of the grammar."""
    name = statement.name
    head = clause.line("CREATE SINK", statement.if_not_exists and "IF NOT EXISTS", name and clause.name(name))
    return _sink(head, f"FROM {clause.name(statement.relation)}", statement)


def create_sinks(statement: ast.CreateSinks) -> str:
    """Return the text of many sinks, in the same order."""
    tables = ", ".join(clause.name(each) for each in statement.tables)
    every = f"FOR ALL TABLES OF SOURCE {clause.name(statement.sink.relation)}"
    head = clause.line("CREATE SINKS", statement.sink.if_not_exists and "IF NOT EXISTS")
    return _sink(head, f"FOR TABLES ({tables})" if tables else every, statement.sink)


def _sink(head: str, rows: str, statement: ast.CreateSink) -> str:
    key, using = statement.key, statement.using
    partition_by = ", ".join(transform(each) for each in statement.partition_by)
    return clause.clauses(
        head,
        clause.in_cluster(statement.cluster),
        rows,
        clause.line(
            "INTO", statement.kind, "CONNECTION", clause.name(statement.connection), clause.options(statement.options)
        ),
        using and f"USING {using.kind} CONNECTION {clause.name(using.connection)}",
        key and clause.line("KEY", clause.idents(key.columns), not key.enforced and "NOT ENFORCED"),
        statement.headers and f"HEADERS {clause.ident(statement.headers)}",
        formats(statement.key_format, statement.format),
        statement.mode and _mode(statement.mode, messages=_messages(statement)),
        partition_by and f"PARTITION BY ({partition_by})",
        statement.sort_by and f"SORT BY ({', '.join(map(sorting, statement.sort_by))})",
        clause.with_clause(statement.with_options),
    )


def _messages(statement: ast.CreateSink) -> bool:
    """Tell whether a sink writes messages, of which the dialect says ENVELOPE: their formats are not those of files."""
    format_ = statement.format
    return statement.headers is not None or (format_ is not None and format_.name != "PARQUET")


def _mode(mode: ast.Mode, *, messages: bool) -> str:
    if not mode.changelog:
        return "ENVELOPE NONE"
    return f"{'ENVELOPE' if messages or mode.mode == 'debezium' else 'MODE'} {mode.mode.upper()}"


def sorting(term: ast.Sorting) -> str:
    """Return a term of SORT BY."""
    return clause.line(clause.ident(term.column), direction(descending=term.descending, nulls_first=term.nulls_first))


def direction(*, descending: bool, nulls_first: bool) -> str:
    """Return which way a term of SORT BY sorts, as far as it has to be said."""
    nulls = "" if nulls_first == descending else "NULLS FIRST" if nulls_first else "NULLS LAST"
    return clause.line(descending and "DESC", nulls)


def transform(term: ast.Transform) -> str:
    """Return a term of PARTITION BY."""
    if term.function == "identity":
        return clause.ident(term.column)
    if term.argument is None:
        return f"{term.function}({clause.ident(term.column)})"
    return f"{term.function}({term.argument}, {clause.ident(term.column)})"
