"""Print a statement as canonical SQL."""

from __future__ import annotations

from sinkql import ast, keywords
from sinkql.keywords import Keywords
from sinkql.printer import clause, dml
from sinkql.printer.alter import alter
from sinkql.printer.create import (
    create_progress,
    create_sink,
    create_sinks,
    create_source,
    create_table_from,
    create_view,
)
from sinkql.printer.redaction import without_secrets

_STAGES = {
    "RAW": "RAW PLAN",
    "DECORRELATED": "DECORRELATED PLAN",
    "LOCALLY OPTIMIZED": "LOCALLY OPTIMIZED PLAN",
    "OPTIMIZED": "OPTIMIZED PLAN",
    "PHYSICAL": "PHYSICAL PLAN",
    "INSIGHTS": "PLAN INSIGHTS",
}


def to_sql(statement: ast.Statement, *, redacted: Keywords | None = None) -> str:
    """Return the statement's canonical text: one clause per line, a semicolon at the end.

    `redacted` has the keywords of the connectors. If it is set, '<redacted>' replaces the literals of CREATE SECRET and
    of options that take secrets.
    """
    return _statement(statement if redacted is None else without_secrets(statement, redacted)) + ";"


def _statement(statement: ast.Statement) -> str:
    match statement:
        case ast.CreateSecret():
            return (
                f"CREATE SECRET {_guard(statement)}{clause.name(statement.name)}\n  AS {clause.secret(statement.value)}"
            )
        case ast.CreateConnection():
            return _connection(statement)
        case ast.CreateCluster():
            return clause.line(
                f"CREATE CLUSTER {_guard(statement)}{clause.ident(statement.name)}",
                clause.options(statement.options),
                statement.features and f"FEATURES {clause.options(statement.features)}",
            )
        case ast.CreateSource():
            return create_source(statement)
        case ast.CreateView():
            return create_view(statement)
        case ast.CreateSink():
            return create_sink(statement)
        case ast.CreateSinks():
            return create_sinks(statement)
        case ast.Drop():
            names = ", ".join(clause.name(name) for name in statement.names)
            guard, target = statement.if_exists and "IF EXISTS", statement.with_table and "WITH TABLE"
            return clause.line("DROP", statement.kind, guard, names, _rule(statement), target)
        case ast.Alter():
            return alter(statement)
        case ast.Insert():
            return dml.insert(statement)
        case ast.Update():
            return dml.update(statement)
        case ast.Subscribe():
            return _subscribe(statement)
        case ast.Delete():
            return dml.delete(statement)
        case ast.Transaction():
            return _transaction(statement)
        case ast.CommentOn():
            text = clause.text(statement.text.value) if statement.text is not None else "NULL"
            return clause.line("COMMENT ON", statement.kind, clause.name(statement.name), "IS", text)
        case ast.ValidateConnection():
            return f"VALIDATE CONNECTION {clause.name(statement.name)}"
        case ast.OptimizeSink():
            return f"OPTIMIZE SINK {clause.name(statement.name)}"
        case ast.ReplayErrors():
            return f"REPLAY ERRORS FROM {clause.name(statement.name)}"
        case ast.Show():
            return _show(statement)
        case ast.ShowCreate():
            return clause.line(
                "SHOW", statement.redacted and "REDACTED", "CREATE", statement.kind, clause.name(statement.name)
            )
        case ast.ShowVariable():
            return clause.line("SHOW", clause.ident(statement.name, keywords.SHOWN) if statement.name else "ALL")
        case ast.AlterSystem():
            if statement.name is None:
                return "ALTER SYSTEM RESET ALL"
            return clause.line("ALTER SYSTEM SET", clause.ident(statement.name), "=", clause.assigned(statement.value))
        case ast.SetVariable():
            return clause.line(
                "SET",
                statement.scope,
                clause.ident(statement.name, keywords.SET),
                "=",
                clause.assigned(statement.value),
            )
        case ast.Explain():
            return _explain(statement)
        case ast.Select():
            return statement.query.text
        case ast.CreateDatabase():
            return f"CREATE DATABASE {_guard(statement)}{clause.ident(statement.name)}"
        case ast.CreateSchema():
            return f"CREATE SCHEMA {_guard(statement)}{clause.name(statement.name)}"
        case ast.CreateTable():
            return dml.create_table(statement)
        case ast.CreateTableFrom():
            return create_table_from(statement)
        case ast.CreateProgress():
            return create_progress(statement)
        case ast.CreateIndex():
            return dml.create_index(statement)


def _guard(statement: ast.Create) -> str:
    return "IF NOT EXISTS " if statement.if_not_exists else ""


def _connection(statement: ast.CreateConnection) -> str:
    validate = statement.validate
    return clause.clauses(
        f"CREATE CONNECTION {_guard(statement)}{clause.name(statement.name)}",
        f"TO {statement.kind} {clause.options(statement.options)}",
        None if validate is None else f"WITH (VALIDATE = {str(validate).upper()})",
    )


def _rule(statement: ast.Drop) -> str:
    if statement.kind == "DATABASE":
        return "" if statement.cascade else "RESTRICT"
    return "CASCADE" if statement.cascade else ""


def _show(statement: ast.Show) -> str:
    relation = statement.relation
    return clause.line(
        "SHOW",
        statement.kind,
        statement.schema and f"FROM {clause.name(statement.schema)}",
        relation and f"{'FROM' if statement.kind == 'COLUMNS' else 'ON'} {clause.name(relation)}",
        clause.in_cluster(statement.cluster),
        statement.like and f"LIKE {clause.text(statement.like.value)}",
        statement.where and f"WHERE {statement.where.text}",
    )


def _explain(statement: ast.Explain) -> str:
    stage, output, options = statement.stage, statement.output, clause.with_clause(statement.options)
    if stage.startswith("ANALYZE"):
        return clause.line("EXPLAIN", stage, _for(statement.explainee), output == "SQL" and "AS SQL")
    return clause.line("EXPLAIN", _STAGES.get(stage, stage), options, "AS", output, _for(statement.explainee))


def _for(explainee: ast.Explainee | None) -> str:
    match explainee:
        case None:
            return ""
        case ast.ItemRef(kind=kind, name=name, replan=replan):
            return clause.line("FOR", replan and "REPLAN", kind, clause.name(name))
        case ast.Query(text=text):
            return f"FOR\n{text}"
        case created:
            return f"FOR\n{_statement(created)}"


def _subscribe(statement: ast.Subscribe) -> str:
    """Return the text of SUBSCRIBE, without a semicolon."""
    relation, at_least = statement.relation, statement.at_least and "AT LEAST"
    return clause.clauses(
        f"SUBSCRIBE TO {f'({relation.text})' if isinstance(relation, ast.Query) else clause.name(relation)}",
        statement.output and statement.output.text,
        clause.with_clause(statement.options),
        statement.as_of and clause.line("AS OF", at_least, statement.as_of.text),
        statement.up_to and f"UP TO {statement.up_to.text}",
    )


def _transaction(statement: ast.Transaction) -> str:
    """Return the text of BEGIN, COMMIT, ROLLBACK or SET TRANSACTION, without a semicolon."""
    action = "SET TRANSACTION" if statement.action == "SET" else statement.action
    return clause.line(action, ", ".join(statement.modes), statement.chain and "AND CHAIN")
