"""Print tables, indexes, and the statements that change rows as canonical SQL."""

from __future__ import annotations

from sinkql import ast
from sinkql.printer import clause


def create_table(statement: ast.CreateTable) -> str:
    """Return the table's text: its columns, then its constraints."""
    parts = table_parts(statement.columns, statement.constraints)
    head = clause.line(
        "CREATE",
        statement.temporary and "TEMPORARY",
        "TABLE",
        statement.if_not_exists and "IF NOT EXISTS",
        clause.name(statement.name),
        parts or "()",
    )
    return clause.clauses(head, clause.with_clause(statement.with_options))


def table_parts(columns: tuple[ast.ColumnDef, ...], constraints: tuple[ast.TableConstraint, ...]) -> str:
    """Return a table's columns and constraints in brackets; an empty text if it has neither."""
    parts = [column(definition) for definition in columns] + [_constraint(constraint) for constraint in constraints]
    return clause.bracketed(parts) if parts else ""


def column(node: ast.ColumnDef) -> str:
    """Return a column's declaration."""
    return clause.line(
        clause.ident(node.name),
        node.type and node.type.text,
        node.collation and f"COLLATE {clause.name(node.collation)}",
        node.not_null and "NOT NULL",
        *(_constraint(constraint) for constraint in node.constraints),
    )


def _constraint(node: ast.ColumnConstraint | ast.TableConstraint) -> str:
    columns = node.columns if isinstance(node, ast.TableConstraint) else ()
    expression = node.expression and node.expression.text
    references = node.table and f"{clause.name(node.table)} {clause.idents(node.referenced)}"
    return clause.line(
        node.name and f"CONSTRAINT {clause.ident(node.name)}",
        node.kind,
        columns and clause.idents(columns),
        f"({expression})" if node.kind == "CHECK" else expression,
        "REFERENCES" if node.kind == "FOREIGN KEY" else "",
        references,
    )


def create_index(statement: ast.CreateIndex) -> str:
    """Return the index's text; without a key, that of CREATE DEFAULT INDEX."""
    head = clause.line(
        "CREATE",
        statement.key is None and "DEFAULT",
        "INDEX",
        statement.if_not_exists and "IF NOT EXISTS",
        statement.name and clause.ident(statement.name),
    )
    key = statement.key and clause.bracketed(expression.text for expression in statement.key)
    return clause.clauses(
        head,
        clause.in_cluster(statement.cluster),
        clause.line("ON", clause.name(statement.relation), key),
        clause.with_clause(statement.with_options),
    )


def insert(statement: ast.Insert) -> str:
    """Return the text of INSERT, without a semicolon."""
    head = clause.line(
        "INSERT INTO", clause.name(statement.table), statement.columns and clause.idents(statement.columns)
    )
    rows = f"\n{statement.query.text}" if statement.query is not None else "\n  DEFAULT VALUES"
    return head + rows + (f"\n  RETURNING {statement.returning.text}" if statement.returning is not None else "")


def update(statement: ast.Update) -> str:
    """Return the text of UPDATE, without a semicolon."""
    assigned = ", ".join(
        f"{clause.ident(assignment.column)} = {assignment.value.text}" for assignment in statement.assignments
    )
    return clause.clauses(
        clause.line("UPDATE", clause.name(statement.table), _alias(statement.alias)),
        f"SET {assigned}",
        statement.where and f"WHERE {statement.where.text}",
    )


def delete(statement: ast.Delete) -> str:
    """Return the text of DELETE, without a semicolon."""
    return clause.clauses(
        clause.line("DELETE FROM", clause.name(statement.table), _alias(statement.alias)),
        statement.using and f"USING {statement.using.text}",
        statement.where and f"WHERE {statement.where.text}",
    )


def _alias(alias: ast.Ident | None) -> str | None:
    return f"AS {clause.ident(alias)}" if alias is not None else None
