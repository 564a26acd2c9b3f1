"""The rows of relations in Postgres, which checks the results of queries over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg
import sqlglot
from psycopg import sql
from psycopg.types.string import TextLoader
from sqlglot import exp, transforms

from views.harness import Content, Relation
from views.rows import Rows, plain


class JudgedContent(Content):
    """Rows in temporary tables of a connection, which stays open."""

    def __init__(self, relations: Sequence[Relation], connection: psycopg.Connection[Any]) -> None:
        self._oracle = connection
        for name in ("jsonb", "uuid"):  # SinkQL has them as text
            connection.adapters.register_loader(name, TextLoader)
        super().__init__(relations)

    def _open(self) -> None:
        for each in self.relations.values():
            columns = ", ".join(f'"{name}" {type_}' for name, type_ in each.columns.items())
            self._execute(f"DROP TABLE IF EXISTS {each.name}; CREATE TEMP TABLE {each.name} ({columns})")

    def _show(self, relation: Relation) -> None:
        self._execute(f"TRUNCATE {relation.name}")
        with self._oracle.cursor() as cursor, cursor.copy(_known(f"COPY {relation.name} FROM STDIN")) as copy:
            for row in self.rows[relation.name].elements():
                copy.write_row([list(each) if isinstance(each, tuple) else each for each in row])

    def ask(self, sql: str) -> Rows:
        """Return the rows of a query in Postgres over the present rows."""
        return Counter(map(plain, self._execute(sql).fetchall()))

    def close(self) -> None:
        """Do nothing: the next test on the connection replaces the tables."""

    def _execute(self, text: str) -> psycopg.Cursor[Any]:
        return self._oracle.execute(_known(text))


def asked(text: str) -> str:
    """Return a query for Postgres, with a subquery instead of QUALIFY."""
    if "QUALIFY" not in text:
        return text
    tree = sqlglot.parse_one(text, read="postgres")
    return str(tree.transform(_without_qualify).sql(dialect="postgres"))


def _without_qualify(node: exp.Expr) -> exp.Expr:
    """Return a query with a subquery instead of QUALIFY.

    SQLGlot takes the column `r.c` there for an output called c. Outputs are renamed while it runs.
    """
    if not isinstance(node, exp.Select) or not node.args.get("qualify"):
        return node
    outputs = [each for each in node.selects if isinstance(each, exp.Alias)]
    columns = {each.name for each in node.args["qualify"].find_all(exp.Column) if each.table}
    names = {f"{each.alias}_of_query": each.alias for each in outputs if each.alias in columns}
    for each in outputs:
        if each.alias in columns:
            each.set("alias", exp.to_identifier(f"{each.alias}_of_query"))
    found = transforms.eliminate_qualify(node)
    assert isinstance(found, exp.Select)
    found.set("expressions", [_named(each, names.get(each.alias_or_name)) for each in found.selects])
    return found


def _named(output: exp.Expr, name: str | None) -> exp.Expr:
    return output if name is None else exp.alias_(output.unalias(), name)


def _known(text: str) -> sql.SQL:
    return sql.SQL(text)
