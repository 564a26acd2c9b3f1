"""Statements that change rows, and transactions → canonical SQL."""

from __future__ import annotations

from sinkql import ast
from sinkql.printer import part


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


def subscribe(statement: ast.Subscribe) -> str:
    """Return the text of SUBSCRIBE, without a semicolon."""
    relation, at_least = statement.relation, statement.at_least and "AT LEAST"
    return part.clauses(
        f"SUBSCRIBE TO {f'({relation.text})' if isinstance(relation, ast.Query) else part.name(relation)}",
        statement.output and statement.output.text,
        part.with_clause(statement.options),
        statement.as_of and part.line("AS OF", at_least, statement.as_of.text),
        statement.up_to and f"UP TO {statement.up_to.text}",
    )


def delete(statement: ast.Delete) -> str:
    """Return the text of DELETE, without a semicolon."""
    return part.clauses(
        part.line("DELETE FROM", part.name(statement.table), _alias(statement.alias)),
        statement.using and f"USING {statement.using.text}",
        statement.where and f"WHERE {statement.where.text}",
    )


def transaction(statement: ast.Transaction) -> str:
    """Return the text of BEGIN, COMMIT, ROLLBACK or SET TRANSACTION, without a semicolon."""
    action = "SET TRANSACTION" if statement.action == "SET" else statement.action
    return part.line(action, ", ".join(statement.modes), statement.chain and "AND CHAIN")


def _alias(alias: ast.Ident | None) -> str | None:
    return f"AS {part.ident(alias)}" if alias is not None else None
