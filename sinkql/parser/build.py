"""A statement's tree → ast.Statement."""

from __future__ import annotations

from sinkql import ast
from sinkql.parser import build_change, tree, value
from sinkql.parser.build_alter import alter
from sinkql.parser.build_explain import explain
from sinkql.parser.build_secret import secret_value
from sinkql.parser.build_sink import sink
from sinkql.parser.build_source import source
from sinkql.parser.build_table import database, index, schema, table, table_from
from sinkql.parser.build_view import view
from sinkql.parser.tree import Node, child, children, ident, span, the_name, the_token, token, words

_SPECIAL = {"SCHEMA": "search_path", "TIME ZONE": "timezone", "NAMES": "client_encoding"}


def statement(node: Node) -> ast.Statement:
    """Return the statement of a tree. Raises SQ102x for what the grammar cannot tell, SQ29xx for later forms."""
    match node.data:
        case "create_secret":
            return ast.CreateSecret(the_name(node), secret_value(node), _if_not_exists(node), span(node))
        case "create_connection":
            return _connection(node)
        case "create_cluster":
            return _cluster(node)
        case "create_source":
            return source(node)
        case "create_database":
            return database(node)
        case "create_schema":
            return schema(node)
        case "create_table":
            return table(node)
        case "create_table_from":
            return table_from(node)
        case "create_index":
            return index(node)
        case "create_view":
            return view(node)
        case "create_sink":
            return sink(node)
        case "drop":
            return _drop(node)
        case "alter_system":
            found = token(node, "NAME")
            return ast.AlterSystem(ident(found) if found else None, _assigned(node), span(node))
        case "set_variable":
            return _set_variable(node)
        case "insert":
            return build_change.insert(node)
        case "update":
            return build_change.update(node)
        case "subscribe":
            return build_change.subscribe(node)
        case "delete":
            return build_change.delete(node)
        case "begin" | "commit" | "rollback" | "set_transaction":
            return build_change.transaction(node)
        case "comment_on":
            return _comment(node)
        case "validate_connection":
            return ast.ValidateConnection(the_name(node), span(node))
        case "optimize_sink":
            return ast.OptimizeSink(the_name(node), span(node))
        case "replay_errors":
            return ast.ReplayErrors(the_name(node), span(node))
        case "show":
            return _show(node)
        case "show_create":
            kind = words(children(node, "kind")[0])
            return ast.ShowCreate(kind, the_name(node), child(node, "redacted") is not None, span(node))
        case "show_variable":
            return _show_variable(node)
        case "explain":
            return explain(node)
        case "select":
            return ast.Select(tree.query(the_token(node, "QUERY")), span(node))
        case _ if node.data.startswith("alter_"):
            return alter(node)
    raise AssertionError(node.data)


def _if_not_exists(node: Node) -> bool:
    return child(node, "if_not_exists") is not None


def _connection(node: Node) -> ast.CreateConnection:
    to = children(node, "connection_to")[0]
    kind = the_token(to, "KIND")
    return ast.CreateConnection(
        name=the_name(node),
        kind=str(kind),
        options=value.any_options(to),
        validate=value.validate(value.with_options(node)),
        if_not_exists=_if_not_exists(node),
        span=span(node),
        kind_span=span(kind),
    )


def _cluster(node: Node) -> ast.CreateCluster:
    features = child(node, "features")
    return ast.CreateCluster(
        name=ident(the_token(node, "NAME")),
        options=value.any_options(node),
        if_not_exists=_if_not_exists(node),
        features=value.any_options(features) if features is not None else (),
        span=span(node),
    )


def _drop(node: Node) -> ast.Drop:
    kind = words(children(node, "dropped_kind")[0])
    return ast.Drop(
        kind=kind,
        names=tree.names(node),
        if_exists=child(node, "if_exists") is not None,
        cascade=tree.cascade(node, unless_said=kind == "DATABASE"),
        span=span(node),
    )


def _comment(node: Node) -> ast.CommentOn:
    kind, text = words(children(node, "comment_kind")[0]), child(node, "text")
    name = tree.name(children(node, "name")[0], most=4 if kind == "COLUMN" else 3)
    return ast.CommentOn(kind, name, value.text(text) if text is not None else None, span(node))


def _show(node: Node) -> ast.Show:
    like, where = child(node, "like"), child(node, "where")
    pattern = the_token(like, "STRING") if like else None
    return ast.Show(
        kind=words(children(node, "kinds", "kinds_on", "columns_kind")[0]),
        schema=tree.child_name(node, "show_schema"),
        cluster=tree.cluster(node),
        like=ast.Text(str(pattern), span(pattern)) if pattern is not None else None,
        where=tree.query(the_token(where, "CONDITION")) if where else None,
        relation=tree.child_name(node) or tree.child_name(node, "show_on"),
        span=span(node),
    )


def _show_variable(node: Node) -> ast.ShowVariable:
    found = token(node, "NAME")
    if found is not None:
        return ast.ShowVariable(ident(found), span(node))
    special = child(node, "time_zone") or child(node, "isolation_level")
    if special is None:
        return ast.ShowVariable(None, span(node))
    name = "timezone" if special.data == "time_zone" else "transaction_isolation"
    return ast.ShowVariable(ast.Ident(name, span(special)), span(node))


def _set_variable(node: Node) -> ast.SetVariable:
    scope, special = child(node, "scope"), child(node, "special_setting")
    if special is not None:
        setting = ast.Ident(_SPECIAL[words(special)], span(special))
    else:
        setting = ident(the_token(node, "NAME"))
    return ast.SetVariable(setting, _assigned(node), words(scope) if scope else None, span(node))


def _assigned(node: Node) -> ast.Value | None:
    found = child(node, "values")
    if found is None:
        return None
    items = tuple(
        value.value(each) for each in children(found, "text", "number", "boolean", "null", "hex", "interval", "word")
    )
    return items[0] if len(items) == 1 else ast.Sequence(items, span(found))
