"""The tree of EXPLAIN → ast."""

from __future__ import annotations

from lark import Token, Tree

from sinkql import ast
from sinkql.parser import tree, value
from sinkql.parser.build_change import subscribe
from sinkql.parser.build_sink import sink
from sinkql.parser.build_table import index
from sinkql.parser.build_view import view
from sinkql.parser.tree import Node, child, children, only, span, the_name, the_token, words

_STAGES = {"PLAN": "PHYSICAL", "PLAN INSIGHTS": "INSIGHTS"}


def explain(node: Node) -> ast.Explain:
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
        options=tuple(_flag(each) for each in children(flags, "flag")) if flags is not None else (),
        span=span(node),
    )


def _stage(node: Node) -> str:
    written = words(node)
    return _STAGES.get(written) or written.removesuffix(" PLAN")


def _analyzed(node: Node) -> ast.ItemRef | None:
    found = child(node, "analyzed")
    if found is None:
        return None
    return ast.ItemRef(words(children(found, "analyzed_kind")[0]), the_name(found), span=span(found))


def _analysis(node: Node) -> str:
    """Return the words of ANALYZE, its resources behind commas."""
    parts = [str(each).upper() if isinstance(each, Token) else words(each) for each in node.children]
    return " ".join(parts).replace(" ,", ",")


def _flag(node: Node) -> ast.Option:
    label = the_token(node, "OPTION_NAME")
    found = next((value.value(each) for each in node.children if isinstance(each, Tree)), None)
    return ast.Option(str(label), found, span(node), span(label))


def _explainee(node: Node) -> ast.Explainee:
    found = children(node, "explained_query", "item_ref", "create_sink", "create_view", "create_index", "subscribe")[0]
    match found.data:
        case "explained_query":
            return tree.query(the_token(found, "QUERY"))
        case "item_ref":
            kind, replan = words(children(found, "item_kind")[0]), child(found, "replan") is not None
            return ast.ItemRef(kind, the_name(found), replan, span(found))
        case "create_sink":
            return sink(found)
        case "create_view":
            return view(found)
        case "create_index":
            return index(found)
        case _:
            return subscribe(found)
