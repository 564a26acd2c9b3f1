"""Print CREATE of sources, tables from sources, views and sinks as canonical SQL."""

from __future__ import annotations

from sinkql import ast
from sinkql.printer import clause
from sinkql.printer.dml import column, table_parts


def create_source(statement: ast.CreateSource) -> str:
    """Return the source's text: one clause per line, in the order of the grammar."""
    head = clause.line(
        "CREATE SOURCE",
        statement.if_not_exists and "IF NOT EXISTS",
        clause.name(statement.name),
        _columns(statement),
    )
    if statement.pushed:
        return clause.clauses(head, clause.in_cluster(statement.cluster), *_pushed(statement))
    origin = (
        statement.kind,
        statement.connection and f"CONNECTION {clause.name(statement.connection)}",
        clause.options(statement.options),
    )
    return clause.clauses(
        head,
        clause.in_cluster(statement.cluster),
        f"FROM {clause.line(*origin)}",
        *_reading(statement),
        statement.subsources and f"FOR {_subsources(statement.subsources)}",
        statement.progress and f"EXPOSE PROGRESS AS {clause.name(statement.progress)}",
        clause.with_clause(statement.with_options),
    )


def create_table_from(statement: ast.CreateTableFrom) -> str:
    """Return the text of a table that a source or a webhook fills."""
    if statement.subsource:
        return _subsource(statement)
    parts = table_parts(statement.columns, statement.constraints)
    head = clause.line("CREATE TABLE", statement.if_not_exists and "IF NOT EXISTS", clause.name(statement.name), parts)
    if statement.source is None:
        return clause.clauses(head, *_pushed(statement))
    reference = statement.reference and f"(REFERENCE = {clause.name(statement.reference)})"
    return clause.clauses(
        head,
        clause.line("FROM SOURCE", clause.name(statement.source), reference),
        *_reading(statement),
        clause.with_clause(statement.with_options),
    )


def create_progress(statement: ast.CreateProgress) -> str:
    """Return the text of a progress subsource."""
    return clause.clauses(
        clause.line("CREATE SUBSOURCE", statement.if_not_exists and "IF NOT EXISTS", clause.name(statement.name)),
        f"OF SOURCE {clause.name(statement.source)} (PROGRESS)",
    )


def _subsource(statement: ast.CreateTableFrom) -> str:
    assert statement.source is not None  # the grammar demands both
    assert statement.reference is not None
    return clause.clauses(
        clause.line("CREATE SUBSOURCE", statement.if_not_exists and "IF NOT EXISTS", clause.name(statement.name)),
        f"OF SOURCE {clause.name(statement.source)} (REFERENCE = {clause.name(statement.reference)})",
    )


def _columns(statement: ast.CreateSource) -> str:
    if not statement.columns:
        return ""
    parts = [column(each) for each in statement.columns]
    if statement.primary_key:
        parts.append(f"PRIMARY KEY {clause.idents(statement.primary_key)} NOT ENFORCED")
    return clause.bracketed(parts)


def _reading(statement: ast.CreateSource | ast.CreateTableFrom) -> tuple[str, ...]:
    """Return the clauses about reading rows; a missing clause is an empty text."""
    include = ", ".join(_included(each) for each in statement.include)
    return (
        formats(statement.key_format, statement.format),
        f"INCLUDE {include}" if include else "",
        f"ENVELOPE {_envelope(statement)}" if statement.envelope else "",
    )


def _envelope(statement: ast.CreateSource | ast.CreateTableFrom) -> str:
    errors = statement.inline_errors
    alias = errors and errors.alias and f"AS {clause.ident(errors.alias)}"
    return clause.line(statement.envelope, errors and f"(VALUE DECODING ERRORS = {clause.line('INLINE', alias)})")


def _included(include: ast.Include) -> str:
    return clause.line(
        include.name,
        include.header is not None and clause.text(include.header),
        include.alias and f"AS {clause.ident(include.alias)}",
        include.binary and "BYTES",
    )


def _subsources(given: ast.Subsources) -> str:
    if given.schemas:
        return f"SCHEMAS {clause.idents(given.schemas)}"
    if not given.references:
        return "ALL TABLES"
    return f"TABLES {clause.bracketed(reference(each) for each in given.references)}"


def reference(given: ast.Reference) -> str:
    """Return an upstream table with its name in SinkQL."""
    return clause.line(clause.name(given.upstream), given.name and f"AS {clause.name(given.name)}")


def _pushed(statement: ast.CreateSource | ast.CreateTableFrom) -> tuple[str, ...]:
    assert statement.format is not None  # the grammar demands it
    check = statement.check
    return (
        f"FROM {statement.kind}",
        f"BODY FORMAT {format_(statement.format)}",
        *(f"INCLUDE {_header(each)}" for each in statement.include),
        f"CHECK {_check(check)}" if check else "",
        clause.with_clause(statement.with_options),
    )


def _header(include: ast.Include) -> str:
    filters = [f"{'NOT ' if filter_.excluded else ''}{clause.text(filter_.name)}" for filter_ in include.filters]
    return clause.line(_included(include), filters and clause.bracketed(filters))


def _check(check: ast.Check) -> str:
    inputs = [
        clause.line(
            input_.kind,
            input_.secret and clause.name(input_.secret),
            input_.alias and f"AS {clause.ident(input_.alias)}",
            input_.binary and "BYTES",
        )
        for input_ in check.inputs
    ]
    return f"({clause.line(inputs and f'WITH {clause.bracketed(inputs)}', check.expression.text)})"


def formats(key: ast.Format | None, value: ast.Format | None) -> str:
    """Return the clause of the formats, an empty text without a format."""
    if value is None:
        return ""
    if key is None:
        return f"FORMAT {format_(value)}"
    return f"KEY FORMAT {format_(key)} VALUE FORMAT {format_(value)}"


def format_(given: ast.Format) -> str:
    """Return a format with its arguments."""
    header = ""
    if given.header:
        header = clause.line("WITH HEADER", given.names and clause.idents(given.names))
    elif given.column_count is not None:
        header = f"WITH {given.column_count} COLUMNS"
    return clause.line(
        given.name,
        given.array and "ARRAY",
        given.pattern is not None and clause.text(given.pattern),
        given.schema and _schema(given.schema),
        header,
        given.delimiter is not None and f"DELIMITED BY {clause.text(given.delimiter)}",
        clause.options(given.options),
    )


def _schema(schema: ast.Schema) -> str:
    key, value = schema.key_strategy, schema.value_strategy
    return clause.line(
        schema.message is not None and f"MESSAGE {clause.text(schema.message)}",
        "USING",
        schema.registry and f"{schema.registry} CONNECTION",
        schema.connection and clause.name(schema.connection),
        schema.text is not None and f"SCHEMA {clause.text(schema.text)}",
        clause.options(schema.options),
        schema.value_seed and "SEED",
        schema.key_seed and f"KEY {_seed(schema.key_seed)}",
        schema.value_seed and f"VALUE {_seed(schema.value_seed)}",
        key and f"KEY STRATEGY {clause.phrase(key)}",
        value and f"VALUE STRATEGY {clause.phrase(value)}",
    )


def _seed(seed: ast.Seed) -> str:
    message = seed.message is not None and f"MESSAGE {clause.text(seed.message)}"
    return clause.line("SCHEMA", clause.text(seed.text), message)


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
    """Return the sink's text: one clause per line, in the order of the grammar."""
    name = statement.name
    head = clause.line("CREATE SINK", statement.if_not_exists and "IF NOT EXISTS", name and clause.name(name))
    return _sink(head, f"FROM {clause.name(statement.relation)}", statement)


def create_sinks(statement: ast.CreateSinks) -> str:
    """Return the text of CREATE SINKS, in the order of the grammar."""
    tables = ", ".join(clause.name(table) for table in statement.tables)
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
    """Return whether a sink writes messages, where the dialect says ENVELOPE and the formats are not file formats."""
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
    """Return the direction and NULLS of a term of SORT BY, without the defaults."""
    nulls = "" if nulls_first == descending else "NULLS FIRST" if nulls_first else "NULLS LAST"
    return clause.line(descending and "DESC", nulls)


def transform(term: ast.Transform) -> str:
    """Return a term of PARTITION BY."""
    if term.function == "identity":
        return clause.ident(term.column)
    if term.argument is None:
        return f"{term.function}({clause.ident(term.column)})"
    return f"{term.function}({term.argument}, {clause.ident(term.column)})"
