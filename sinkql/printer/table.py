"""Tables, indexes and the statements that change rows → canonical SQL."""

from __future__ import annotations

from sinkql import ast
from sinkql.printer import part


def create_table(statement: ast.CreateTable) -> str:
    """Return the table's text: its columns, then its constraints."""
    parts = table_parts(statement.columns, statement.constraints)
    head = part.line(
        "CREATE",
        statement.temporary and "TEMPORARY",
        "TABLE",
        statement.if_not_exists and "IF NOT EXISTS",
        part.name(statement.name),
        parts or "()",
    )
    return part.clauses(head, part.with_clause(statement.with_options))


def table_parts(columns: tuple[ast.ColumnDef, ...], constraints: tuple[ast.TableConstraint, ...]) -> str:
    """Return a table's columns and constraints in brackets, nothing for none."""
    parts = [column(each) for each in columns] + [_constraint(each) for each in constraints]
    return part.bracketed(parts) if parts else ""


def column(given: ast.ColumnDef) -> str:
    """Return a column as it is declared."""
    return part.line(
        part.ident(given.name),
        given.type and given.type.text,
        given.collation and f"COLLATE {part.name(given.collation)}",
        given.not_null and "NOT NULL",
        *(_constraint(each) for each in given.constraints),
    )


def _constraint(given: ast.ColumnConstraint | ast.TableConstraint) -> str:
    columns = given.columns if isinstance(given, ast.TableConstraint) else ()
    expression = given.expression and given.expression.text
    references = given.table and f"{part.name(given.table)} {part.idents(given.referenced)}"
    return part.line(
        given.name and f"CONSTRAINT {part.ident(given.name)}",
        given.kind,
        columns and part.idents(columns),
        f"({expression})" if given.kind == "CHECK" else expression,
        "REFERENCES" if given.kind == "FOREIGN KEY" else "",
        references,
    )


def create_index(statement: ast.CreateIndex) -> str:
    """Return the index's text; without a key it is the default one."""
    head = part.line(
        "CREATE",
        statement.key is None and "DEFAULT",
        "INDEX",
        statement.if_not_exists and "IF NOT EXISTS",
        statement.name and part.ident(statement.name),
    )
    key = statement.key and part.bracketed(each.text for each in statement.key)
    return part.clauses(
        head,
        part.in_cluster(statement.cluster),
        part.line("ON", part.name(statement.relation), key),
        part.with_clause(statement.with_options),
    )


def insert(statement: ast.Insert) -> str:
    """Return the text of INSERT, without a semicolon."""
    head = part.line("INSERT INTO", part.name(statement.table), statement.columns and part.idents(statement.columns))
    rows = f"\n{statement.query.text}" if statement.query is not None else "\n  DEFAULT VALUES"
    return head + rows + (f"\n  RETURNING {statement.returning.text}" if statement.returning is not None else "")


def update(statement: ast.Update) -> str:
    """Return the text of UPDATE, without a semicolon."""
    assigned = ", ".join(f"{part.ident(each.column)} = {each.value.text}" for each in statement.assignments)
    return part.clauses(
        part.line("UPDATE", part.name(statement.table), _alias(statement.alias)),
        f"SET {assigned}",
        statement.where and f"WHERE {statement.where.text}",
    )


def delete(statement: ast.Delete) -> str:
    """Return the text of DELETE, without a semicolon."""
    return part.clauses(
        part.line("DELETE FROM", part.name(statement.table), _alias(statement.alias)),
        statement.using and f"USING {statement.using.text}",
        statement.where and f"WHERE {statement.where.text}",
    )


def _alias(alias: ast.Ident | None) -> str | None:
    return f"AS {part.ident(alias)}" if alias is not None else None
