"""A query as Postgres's tools write it → the same in what SinkQL plans, by rewriting its tree."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

_SCHEMAS = ("pg_catalog", "mz_catalog", "mz_internal", "information_schema")
_WORDS = {
    exp.CurrentSchema: "current_schema", exp.CurrentUser: "current_user", exp.CurrentCatalog: "current_catalog",
    exp.SessionUser: "session_user",
}  # fmt: skip
_MATCHES: dict[str, type[exp.Expr]] = {"~": exp.RegexpLike, "~*": exp.RegexpILike}
_COLLATION = "default"


def without_postgres(tree: exp.Query) -> exp.Query:
    """Return the tree without what only Postgres has: schemas of functions and operators, its own collation."""
    for node in reversed(list(tree.walk())):  # what is inside comes before what holds it
        changed = _change(node)
        if changed is not node:
            changed._meta = {**node.meta, **changed.meta}  # its place is its own, if it has one
            node.replace(changed)
    return tree


def _change(node: Any) -> Any:
    match node:
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Anonymous() as call) if _system(schema):
            return call
        case exp.Collate() if node.expression.name.lower() == _COLLATION:
            return node.this
        case exp.Operator():
            return _operator(node)
        case exp.CurrentSchema() | exp.CurrentUser() | exp.CurrentCatalog() | exp.SessionUser():
            return exp.Anonymous(this=_WORDS[type(node)])
        case _:
            return node


def _system(schema: exp.Identifier) -> bool:
    return schema.name.lower() in _SCHEMAS


def _operator(node: Any) -> Any:
    """Return what OPERATOR(pg_catalog.~) and its like are."""
    sign = str(node.args["operator"]).rpartition(".")[2].strip()
    class_ = _MATCHES.get(sign.removeprefix("!"))
    if class_ is None:
        return node
    match_ = class_(this=node.this, expression=node.expression)
    match_.meta.update(node.meta)
    return exp.not_(match_) if sign.startswith("!") else match_
