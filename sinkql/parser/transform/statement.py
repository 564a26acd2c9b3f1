"""Transform the tree of a statement into its AST node; `create` and `dml` do so for their statements."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import ast, keywords
from sinkql.errors import SinkqlError, Span
from sinkql.parser.read import tree
from sinkql.parser.read.tree import (
    Node,
    Token,
    child,
    children,
    ident,
    idents,
    only,
    span,
    the_name,
    the_token,
    token,
    words,
)
from sinkql.parser.transform import value
from sinkql.parser.transform.alter import alter
from sinkql.parser.transform.create import sink, sinks, source, view
from sinkql.parser.transform.dml import database, delete, index, insert, schema, subsource, table, table_from, update
from sinkql.parser.transform.value import secret_value

_SPECIAL = {"SCHEMA": "search_path", "TIME ZONE": "timezone", "NAMES": "client_encoding"}
_STAGES = {"PLAN": "PHYSICAL", "PLAN INSIGHTS": "INSIGHTS"}


def statement(node: Node) -> ast.Statement:
    """Return the statement of a tree. Raises SQ102x for other errors, SQ29xx for unsupported forms."""
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
        case "create_subsource":
            return subsource(node)
        case "create_index":
            return index(node)
        case "create_view":
            return view(node)
        case "create_sink":
            return sink(node)
        case "create_sinks":
            return sinks(node)
        case "drop":
            return _drop(node)
        case "alter_system":
            return ast.AlterSystem(_setting_name(node), _assigned(node), span(node))
        case "set_variable":
            return _set_variable(node)
        case "insert":
            return insert(node)
        case "update":
            return update(node)
        case "subscribe":
            return _subscribe(node)
        case "delete":
            return delete(node)
        case "begin" | "commit" | "rollback" | "set_transaction":
            return _transaction(node)
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
            return _explain(node)
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
        options=value.connection_options(value.any_options(to)),
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
    kind = words((children(node, "dropped_kind") or children(node, "dropped_sink"))[0])
    return ast.Drop(
        kind=kind,
        names=tree.names(node),
        if_exists=child(node, "if_exists") is not None,
        cascade=tree.cascade(node, unless_said=kind == "DATABASE"),
        with_table=child(node, "with_table") is not None,
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
        kind="COLUMNS" if child(node, "columns_kind") else words(children(node, "kinds", "kinds_on")[0]),
        schema=tree.child_name(node, "show_schema"),
        cluster=tree.cluster(node),
        like=ast.Text(str(pattern), span(pattern)) if pattern is not None else None,
        where=tree.query(the_token(where, "CONDITION")) if where else None,
        relation=tree.child_name(node) or tree.child_name(node, "show_on"),
        span=span(node),
    )


def _show_variable(node: Node) -> ast.ShowVariable:
    setting = _setting_name(node)
    if setting is not None:
        return ast.ShowVariable(setting, span(node))
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
        setting = _dotted(idents(node))
    return ast.SetVariable(setting, _assigned(node), words(scope) if scope else None, span(node))


def _setting_name(node: Node) -> ast.Ident | None:
    """Return a setting's name, whose dotted parts form one name; None for ALL."""
    parts = idents(node)
    return _dotted(parts) if parts else None


def _dotted(parts: Sequence[ast.Ident]) -> ast.Ident:
    """Return the parts of a setting's name as one name with dots in it."""
    return ast.Ident(".".join(part.value for part in parts), Span(parts[0].span.start, parts[-1].span.end))


def _assigned(node: Node) -> ast.Value | None:
    values = child(node, "values")
    if values is None:
        return None
    items = tuple(
        value.value(item) for item in children(values, "text", "number", "boolean", "null", "hex", "interval", "word")
    )
    return items[0] if len(items) == 1 else ast.Sequence(items, span(values))


def _subscribe(node: Node) -> ast.Subscribe:
    """Return the statement of a `subscribe` node. Raises SQ1021 for a repeated output."""
    outputs = children(node, "output_envelope", "output_order")
    if len(outputs) > 1:
        raise SinkqlError("SQ1021", "the output is given twice", span(outputs[1]), hint="Keep one of them.")
    query, as_of, up_to = token(node, "QUERY"), child(node, "as_of"), child(node, "up_to")
    return ast.Subscribe(
        relation=tree.query(query) if query is not None else the_name(node),
        output=_output(outputs[0]) if outputs else None,
        options=value.with_options(node),
        as_of=tree.expression(the_token(as_of, "EXPRESSION")) if as_of is not None else None,
        at_least=as_of is not None and child(as_of, "at_least") is not None,
        up_to=tree.expression(the_token(up_to, "EXPRESSION")) if up_to is not None else None,
        span=span(node),
    )


def _output(node: Node) -> ast.Expression:
    if node.data == "output_order":
        return ast.Expression(f"WITHIN TIMESTAMP ORDER BY {the_token(node, 'EXPRESSIONS')}", span(node))
    form, columns = words(children(node, "change_form")[0]), tree.idents(children(node, "columns")[0])
    key = ", ".join(_quoted(column.value) for column in columns)
    return ast.Expression(f"ENVELOPE {form} (KEY ({key}))", span(node))


def _quoted(name: str) -> str:
    plain = name.isascii() and name.isidentifier() and name.islower() and name.upper() not in keywords.QUOTED
    return name if plain else keywords.quoted(name)


def _transaction(node: Node) -> ast.Transaction:
    """Return the statement of a `begin`, `commit`, `rollback` or `set_transaction` node."""
    modes = child(node, "transaction_modes")
    return ast.Transaction(
        action="SET" if node.data == "set_transaction" else str(node.data).upper(),
        modes=tuple(_mode(mode) for mode in children(modes, "transaction_mode")) if modes is not None else (),
        chain=child(node, "chain") is not None,
        span=span(node),
    )


def _mode(node: Node) -> str:
    isolation = child(node, "isolation")
    return f"ISOLATION LEVEL {words(isolation)}" if isolation is not None else words(node)


def _explain(node: Node) -> ast.Explain:
    """Return the statement of an `explain` node."""
    analyze = child(node, "analyze") or child(node, "analyze_cluster")
    if analyze is not None:
        output = "SQL" if child(node, "as_sql") is not None else "TEXT"
        return ast.Explain(_analyzed(node), _analysis(analyze), output, span=span(node))
    stage, output_as, flags = child(node, "stage"), child(node, "explain_as"), child(node, "flags")
    return ast.Explain(
        _explainee(node),
        stage=_stage(stage) if stage is not None else "PHYSICAL",
        output=words(only(output_as)) if output_as is not None else "TEXT",
        options=tuple(_flag(flag) for flag in children(flags, "flag")) if flags is not None else (),
        span=span(node),
    )


def _stage(node: Node) -> str:
    written = words(node)
    return _STAGES.get(written) or written.removesuffix(" PLAN")


def _analyzed(node: Node) -> ast.ItemRef | None:
    analyzed = child(node, "analyzed")
    if analyzed is None:
        return None
    return ast.ItemRef(words(children(analyzed, "analyzed_kind")[0]), the_name(analyzed), span=span(analyzed))


def _analysis(node: Node) -> str:
    """Return the words of ANALYZE, its resources separated by commas."""
    parts = [str(subnode).upper() if isinstance(subnode, Token) else words(subnode) for subnode in node.children]
    return " ".join(parts).replace(" ,", ",")


def _flag(node: Node) -> ast.Option:
    label = the_token(node, "OPTION_NAME")
    flag_value = next((value.value(subnode) for subnode in node.children if isinstance(subnode, Node)), None)
    return ast.Option(str(label), flag_value, span(node), span(label))


def _explainee(node: Node) -> ast.Explainee:
    explained = children(
        node, "explained_query", "item_ref", "create_sink", "create_view", "create_index", "subscribe"
    )[0]
    match explained.data:
        case "explained_query":
            return tree.query(the_token(explained, "QUERY"))
        case "item_ref":
            kind, replan = words(children(explained, "item_kind")[0]), child(explained, "replan") is not None
            return ast.ItemRef(kind, the_name(explained), replan, span(explained))
        case "create_sink":
            return sink(explained)
        case "create_view":
            return view(explained)
        case "create_index":
            return index(explained)
        case _:
            return _subscribe(explained)
