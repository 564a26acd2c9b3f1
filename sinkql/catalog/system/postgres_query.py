"""A query as Postgres's tools write it → the same in what SQLite has, by rewriting its tree."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sinkql.catalog.system.relation import Relation

_DIALECT = "materialize"
_NAMES_AS_TYPES = ("regclass", "regtype", "regproc", "regnamespace", "name", "oid", '"char"', "char", "cstring")
_FUNCTIONS = {exp.CurrentSchema: "current_schema", exp.CurrentVersion: "version"}
_NUMBERS = ("oid", "smallint", "integer", "bigint", "uint4", "uint8")
_MATCH = "~"


def without_postgres(tree: exp.Query) -> exp.Query:
    """Return the tree without what only Postgres has: schemas of functions and operators, collations, regclass."""
    for node in reversed(list(tree.walk())):  # what is inside comes before what holds it
        changed = _change(node)
        if changed is not node:
            node.replace(changed)
    return tree


def _change(node: exp.Expression) -> exp.Expression:
    match node:
        case exp.Dot(expression=exp.Func() as call):
            return call
        case exp.Collate():
            return node.this
        case exp.Operator() if str(node.args["operator"]).endswith(_MATCH):
            match_ = exp.RegexpLike(this=node.this, expression=node.expression)
            return exp.not_(match_) if str(node.args["operator"]).endswith("!~") else match_
        case exp.EQ(expression=exp.Any(this=array)) if _elements(array):
            return exp.In(this=node.this, expressions=_elements(array))
        case exp.NEQ(expression=exp.All(this=array)) if _elements(array):
            return exp.not_(exp.In(this=node.this, expressions=_elements(array)))
        case exp.Left():
            return exp.func("substr", node.this, exp.Literal.number(1), node.expression)
        case exp.RegexpILike():
            return exp.func("regexp_i", node.expression, node.this)
        case exp.Cast() if node.to.sql(_DIALECT).lower().removeprefix("pg_catalog.") in _NAMES_AS_TYPES:
            return node.this
        case exp.CurrentSchema() | exp.CurrentVersion():
            return exp.Anonymous(this=_FUNCTIONS[type(node)])
        case _:
            return node


def _elements(array: exp.Expression) -> list[exp.Expression]:
    """Return what an ARRAY[…] holds, in parentheses or not; nothing for any other expression."""
    inner = array.unnest()
    return list(inner.expressions) if isinstance(inner, exp.Array) else []


def compare_numbers(tree: exp.Query, relations: Mapping[str, Relation]) -> None:
    """Turn texts that are compared with columns of numbers into numbers, as an untyped text in Postgres is."""
    for comparison in tree.find_all(exp.EQ, exp.NEQ, exp.In):
        column = comparison.this
        relation = relations.get(column.table) if isinstance(column, exp.Column) else None
        if relation is None or relation.type_of(column.name) not in _NUMBERS:
            continue
        for value in [comparison.args.get("expression"), *comparison.expressions]:
            if isinstance(value, exp.Literal) and value.is_string and value.this.isdigit():
                value.replace(exp.Literal.number(value.this))
