"""CREATE SOURCE, and CREATE TABLE from a source → their canonical text."""

from __future__ import annotations

from sinkql import ast
from sinkql.printer import part
from sinkql.printer.table import column, table_parts


def create_source(statement: ast.CreateSource) -> str:
    """Return the source's text: a clause a line, in the order of the grammar."""
    head = part.line(
        "CREATE SOURCE",
        statement.if_not_exists and "IF NOT EXISTS",
        part.name(statement.name),
        _columns(statement),
    )
    if statement.pushed:
        return part.clauses(head, part.in_cluster(statement.cluster), *_pushed(statement))
    origin = (
        statement.kind,
        statement.connection and f"CONNECTION {part.name(statement.connection)}",
        part.options(statement.options),
    )
    return part.clauses(
        head,
        part.in_cluster(statement.cluster),
        f"FROM {part.line(*origin)}",
        *_reading(statement),
        statement.subsources and f"FOR {_subsources(statement.subsources)}",
        statement.progress and f"EXPOSE PROGRESS AS {part.name(statement.progress)}",
        part.with_clause(statement.with_options),
    )


def create_table_from(statement: ast.CreateTableFrom) -> str:
    """Return the text of a table that a source feeds, or whoever sends rows."""
    if statement.subsource:
        return _subsource(statement)
    parts = table_parts(statement.columns, statement.constraints)
    head = part.line("CREATE TABLE", statement.if_not_exists and "IF NOT EXISTS", part.name(statement.name), parts)
    if statement.source is None:
        return part.clauses(head, *_pushed(statement))
    reference = statement.reference and f"(REFERENCE = {part.name(statement.reference)})"
    return part.clauses(
        head,
        part.line("FROM SOURCE", part.name(statement.source), reference),
        *_reading(statement),
        part.with_clause(statement.with_options),
    )


def create_progress(statement: ast.CreateProgress) -> str:
    """Return the text of what tells how far a source is read."""
    return part.clauses(
        part.line("CREATE SUBSOURCE", statement.if_not_exists and "IF NOT EXISTS", part.name(statement.name)),
        f"OF SOURCE {part.name(statement.source)} (PROGRESS)",
    )


def _subsource(statement: ast.CreateTableFrom) -> str:
    assert statement.source is not None  # the grammar demands both
    assert statement.reference is not None
    return part.clauses(
        part.line("CREATE SUBSOURCE", statement.if_not_exists and "IF NOT EXISTS", part.name(statement.name)),
        f"OF SOURCE {part.name(statement.source)} (REFERENCE = {part.name(statement.reference)})",
    )


def _columns(statement: ast.CreateSource) -> str:
    if not statement.columns:
        return ""
    parts = [column(each) for each in statement.columns]
    if statement.primary_key:
        parts.append(f"PRIMARY KEY {part.idents(statement.primary_key)} NOT ENFORCED")
    return part.bracketed(parts)


def _reading(statement: ast.CreateSource | ast.CreateTableFrom) -> tuple[str, ...]:
    """Return the clauses that say how rows are read; empty texts for those that are not there."""
    include = ", ".join(_included(each) for each in statement.include)
    return (
        formats(statement.key_format, statement.format),
        f"INCLUDE {include}" if include else "",
        f"ENVELOPE {_envelope(statement)}" if statement.envelope else "",
    )


def _envelope(statement: ast.CreateSource | ast.CreateTableFrom) -> str:
    errors = statement.inline_errors
    alias = errors and errors.alias and f"AS {part.ident(errors.alias)}"
    return part.line(statement.envelope, errors and f"(VALUE DECODING ERRORS = {part.line('INLINE', alias)})")


def _included(include: ast.Include) -> str:
    return part.line(
        include.name,
        include.header is not None and part.text(include.header),
        include.alias and f"AS {part.ident(include.alias)}",
        include.binary and "BYTES",
    )


def _subsources(given: ast.Subsources) -> str:
    if given.schemas:
        return f"SCHEMAS {part.idents(given.schemas)}"
    if not given.references:
        return "ALL TABLES"
    return f"TABLES {part.bracketed(reference(each) for each in given.references)}"


def reference(given: ast.Reference) -> str:
    """Return an upstream table, with the name it gets here."""
    return part.line(part.name(given.upstream), given.name and f"AS {part.name(given.name)}")


def _pushed(statement: ast.CreateSource | ast.CreateTableFrom) -> tuple[str, ...]:
    assert statement.format is not None  # the grammar demands it
    check = statement.check
    return (
        f"FROM {statement.kind}",
        f"BODY FORMAT {format_(statement.format)}",
        *(f"INCLUDE {_header(each)}" for each in statement.include),
        f"CHECK {_check(check)}" if check else "",
        part.with_clause(statement.with_options),
    )


def _header(include: ast.Include) -> str:
    filters = [f"{'NOT ' if each.excluded else ''}{part.text(each.name)}" for each in include.filters]
    return part.line(_included(include), filters and part.bracketed(filters))


def _check(check: ast.Check) -> str:
    inputs = [
        part.line(
            each.kind,
            each.secret and part.name(each.secret),
            each.alias and f"AS {part.ident(each.alias)}",
            each.binary and "BYTES",
        )
        for each in check.inputs
    ]
    return f"({part.line(inputs and f'WITH {part.bracketed(inputs)}', check.expression.text)})"


def formats(key: ast.Format | None, value: ast.Format | None) -> str:
    """Return the clause of the formats, nothing for none."""
    if value is None:
        return ""
    if key is None:
        return f"FORMAT {format_(value)}"
    return f"KEY FORMAT {format_(key)} VALUE FORMAT {format_(value)}"


def format_(given: ast.Format) -> str:
    """Return a format with what it takes."""
    header = ""
    if given.header:
        header = part.line("WITH HEADER", given.names and part.idents(given.names))
    elif given.column_count is not None:
        header = f"WITH {given.column_count} COLUMNS"
    return part.line(
        given.name,
        given.array and "ARRAY",
        given.pattern is not None and part.text(given.pattern),
        given.schema and _schema(given.schema),
        header,
        given.delimiter is not None and f"DELIMITED BY {part.text(given.delimiter)}",
        part.options(given.options),
    )


def _schema(schema: ast.Schema) -> str:
    key, value = schema.key_strategy, schema.value_strategy
    return part.line(
        schema.message is not None and f"MESSAGE {part.text(schema.message)}",
        "USING",
        schema.registry and f"{schema.registry} CONNECTION",
        schema.connection and part.name(schema.connection),
        schema.text is not None and f"SCHEMA {part.text(schema.text)}",
        part.options(schema.options),
        schema.value_seed and "SEED",
        schema.key_seed and f"KEY {_seed(schema.key_seed)}",
        schema.value_seed and f"VALUE {_seed(schema.value_seed)}",
        key and f"KEY STRATEGY {part.phrase(key)}",
        value and f"VALUE STRATEGY {part.phrase(value)}",
    )


def _seed(seed: ast.Seed) -> str:
    message = seed.message is not None and f"MESSAGE {part.text(seed.message)}"
    return part.line("SCHEMA", part.text(seed.text), message)
