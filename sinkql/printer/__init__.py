"""ast → canonical SQL: parsed again, it is the same statement.

* `redaction`: a statement to the same without its secrets.
* `table`: tables and indexes.
* `part`: names, values and options to their text.
"""

from __future__ import annotations

from sinkql import ast, words
from sinkql.printer import change, part
from sinkql.printer.alter import alter
from sinkql.printer.redaction import without_secrets
from sinkql.printer.table import create_index, create_table

_STAGES = {
    "RAW": "RAW PLAN",
    "DECORRELATED": "DECORRELATED PLAN",
    "LOCALLY OPTIMIZED": "LOCALLY OPTIMIZED PLAN",
    "OPTIMIZED": "OPTIMIZED PLAN",
    "PHYSICAL": "PHYSICAL PLAN",
    "INSIGHTS": "PLAN INSIGHTS",
}


def to_sql(statement: ast.Statement, *, redacted: bool = False) -> str:
    """Return the statement's canonical text: a clause a line, a semicolon at the end.

    `redacted` prints '<redacted>' for the literals of a CREATE SECRET and of options that take secrets.
    """
    return _statement(without_secrets(statement) if redacted else statement) + ";"


def _statement(statement: ast.Statement) -> str:
    match statement:
        case ast.CreateSecret():
            return f"CREATE SECRET {_guard(statement)}{part.name(statement.name)}\n  AS {part.secret(statement.value)}"
        case ast.CreateConnection():
            return _connection(statement)
        case ast.CreateCluster():
            return f"CREATE CLUSTER {_guard(statement)}{part.ident(statement.name)} {part.options(statement.options)}"
        case ast.CreateSource():
            return _source(statement)
        case ast.CreateView():
            return _view(statement)
        case ast.CreateSink():
            return _sink(statement)
        case ast.Drop():
            names = ", ".join(part.name(name) for name in statement.names)
            return part.line("DROP", statement.kind, statement.if_exists and "IF EXISTS", names, _rule(statement))
        case ast.Alter():
            return alter(statement)
        case ast.Insert():
            return change.insert(statement)
        case ast.Update():
            return change.update(statement)
        case ast.Subscribe():
            return change.subscribe(statement)
        case ast.Delete():
            return change.delete(statement)
        case ast.Transaction():
            return change.transaction(statement)
        case ast.CommentOn():
            text = part.text(statement.text.value) if statement.text is not None else "NULL"
            return part.line("COMMENT ON", statement.kind, part.name(statement.name), "IS", text)
        case ast.ValidateConnection():
            return f"VALIDATE CONNECTION {part.name(statement.name)}"
        case ast.OptimizeSink():
            return f"OPTIMIZE SINK {part.name(statement.name)}"
        case ast.ReplayErrors():
            return f"REPLAY ERRORS FROM {part.name(statement.name)}"
        case ast.Show():
            return _show(statement)
        case ast.ShowCreate():
            return part.line(
                "SHOW", statement.redacted and "REDACTED", "CREATE", statement.kind, part.name(statement.name)
            )
        case ast.ShowVariable():
            return part.line("SHOW", part.ident(statement.name, words.SHOWN) if statement.name else "ALL")
        case ast.AlterSystem():
            if statement.name is None:
                return "ALTER SYSTEM RESET ALL"
            return part.line("ALTER SYSTEM SET", part.ident(statement.name), "=", part.assigned(statement.value))
        case ast.SetVariable():
            return part.line(
                "SET", statement.scope, part.ident(statement.name, words.SET), "=", part.assigned(statement.value)
            )
        case ast.Explain():
            return _explain(statement)
        case ast.Select():
            return statement.query.text
        case ast.CreateDatabase():
            return f"CREATE DATABASE {_guard(statement)}{part.ident(statement.name)}"
        case ast.CreateSchema():
            return f"CREATE SCHEMA {_guard(statement)}{part.name(statement.name)}"
        case ast.CreateTable():
            return create_table(statement)
        case ast.CreateIndex():
            return create_index(statement)


def _guard(statement: ast.Create) -> str:
    return "IF NOT EXISTS " if statement.if_not_exists else ""


def _connection(statement: ast.CreateConnection) -> str:
    validate = statement.validate
    return part.clauses(
        f"CREATE CONNECTION {_guard(statement)}{part.name(statement.name)}",
        f"TO {statement.kind} {part.options(statement.options)}",
        None if validate is None else f"WITH (VALIDATE = {str(validate).upper()})",
    )


def _source(statement: ast.CreateSource) -> str:
    origin = (
        statement.kind,
        statement.generator,
        statement.connection and f"CONNECTION {part.name(statement.connection)}",
        part.options(statement.options),
    )
    include = ", ".join(_included(each) for each in statement.include)
    return part.clauses(
        f"CREATE SOURCE {_guard(statement)}{part.name(statement.name)}{_columns(statement)}",
        part.in_cluster(statement.cluster),
        f"FROM {part.line(*origin)}",
        statement.format and f"FORMAT {_format(statement.format)}",
        include and f"INCLUDE {include}",
        statement.envelope and f"ENVELOPE {statement.envelope}",
        part.with_clause(statement.with_options),
    )


def _columns(statement: ast.CreateSource) -> str:
    if not statement.columns:
        return ""
    parts = [part.column(column) for column in statement.columns]
    if statement.primary_key:
        parts.append(f"PRIMARY KEY {part.idents(statement.primary_key)} NOT ENFORCED")
    return f" {part.bracketed(parts)}"


def _included(include: ast.Include) -> str:
    return part.line(include.name, include.alias and f"AS {part.ident(include.alias)}")


def _format(format_: ast.Format) -> str:
    header = ""
    if format_.header:
        header = part.line("WITH HEADER", format_.names and part.idents(format_.names))
    elif format_.column_count is not None:
        header = f"WITH {format_.column_count} COLUMNS"
    delimited = format_.delimiter is not None and f"DELIMITED BY {part.text(format_.delimiter)}"
    return part.line(format_.name, format_.array and "ARRAY", header, delimited)


def _view(statement: ast.CreateView) -> str:
    text = statement.query.text
    head = part.line(
        "CREATE",
        statement.or_replace and "OR REPLACE",
        statement.temporary and "TEMPORARY",
        statement.materialized and "MATERIALIZED",
        "VIEW",
        f"{_guard(statement)}{part.name(statement.name)}",
        statement.columns and part.idents(statement.columns),
    )
    query = f"AS\n{text}" if "\n" in text else f"AS {text}"
    return part.clauses(head, part.in_cluster(statement.cluster), part.with_clause(statement.with_options), query)


def _sink(statement: ast.CreateSink) -> str:
    name, key, aws = statement.name, statement.key, statement.aws_connection
    partition_by = ", ".join(_transform(each) for each in statement.partition_by)
    return part.clauses(
        part.line("CREATE SINK", statement.if_not_exists and "IF NOT EXISTS", name and part.name(name)),
        part.in_cluster(statement.cluster),
        f"FROM {part.name(statement.relation)}",
        part.line(
            "INTO", statement.kind, "CONNECTION", part.name(statement.connection), part.options(statement.options)
        ),
        aws and f"USING AWS CONNECTION {part.name(aws)}",
        key and part.line("KEY", part.idents(key.columns), not key.enforced and "NOT ENFORCED"),
        statement.mode and _mode(statement.mode),
        partition_by and f"PARTITION BY ({partition_by})",
        statement.format and f"FORMAT {statement.format}",
        part.with_clause(statement.with_options),
    )


def _mode(mode: ast.Mode) -> str:
    return f"MODE {mode.mode.upper()}" if mode.changelog else "ENVELOPE NONE"


def _transform(transform: ast.Transform) -> str:
    if transform.function == "identity":
        return part.ident(transform.column)
    if transform.argument is None:
        return f"{transform.function}({part.ident(transform.column)})"
    return f"{transform.function}({transform.argument}, {part.ident(transform.column)})"


def _rule(statement: ast.Drop) -> str:
    if statement.kind == "DATABASE":
        return "" if statement.cascade else "RESTRICT"
    return "CASCADE" if statement.cascade else ""


def _show(statement: ast.Show) -> str:
    relation = statement.relation
    return part.line(
        "SHOW",
        statement.kind,
        statement.schema and f"FROM {part.name(statement.schema)}",
        relation and f"{'FROM' if statement.kind == 'COLUMNS' else 'ON'} {part.name(relation)}",
        part.in_cluster(statement.cluster),
        statement.like and f"LIKE {part.text(statement.like.value)}",
        statement.where and f"WHERE {statement.where.text}",
    )


def _explain(statement: ast.Explain) -> str:
    stage, output, options = statement.stage, statement.output, part.with_clause(statement.options)
    if stage.startswith("ANALYZE"):
        return part.line("EXPLAIN", stage, _for(statement.explainee), output == "SQL" and "AS SQL")
    return part.line("EXPLAIN", _STAGES.get(stage, stage), options, "AS", output, _for(statement.explainee))


def _for(explainee: ast.Explainee | None) -> str:
    match explainee:
        case None:
            return ""
        case ast.ItemRef(kind=kind, name=name, replan=replan):
            return part.line("FOR", replan and "REPLAN", kind, part.name(name))
        case ast.Query(text=text):
            return f"FOR\n{text}"
        case created:
            return f"FOR\n{_statement(created)}"
