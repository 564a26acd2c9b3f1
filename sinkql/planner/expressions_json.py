"""The operators of jsonb in sqlglot's tree → Spark SQL: a chain of -> becomes one path."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sinkql.errors import SinkqlError
from sinkql.logical import Type
from sinkql.planner import functions_json as functions
from sinkql.planner import types
from sinkql.planner.expressions_typed import Typed
from sinkql.planner.functions_overload import constant_text

if TYPE_CHECKING:
    from sinkql.planner.expressions import Translator

    Handler = Callable[[Translator, Any], Typed]


def _chain(t: Translator, node: Any) -> tuple[Typed, list[functions.Step]]:
    """Return what a chain of -> begins with, and its keys and indexes."""
    t.only(node, "this", "expression")
    steps = [_step(t, node.expression)]
    below = _bare(node.this)
    while isinstance(below, exp.JSONExtract) and not isinstance(below, exp.JSONExtractScalar):
        t.only(below, "this", "expression")
        steps.insert(0, _step(t, below.expression))
        below = _bare(below.this)
    return t.translate(below), steps


def _bare(node: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _step(t: Translator, node: Any) -> functions.Step:
    value = t.translate(node)
    if isinstance(value.constant, str):
        return value.constant
    if value.type == types.INTEGER and isinstance(value.constant, int):
        return value.constant
    raise SinkqlError("SQ2214", "the key of -> and ->> must be a constant", value.span)


def _text(t: Translator, node: Any) -> Typed:
    value, steps = _chain(t, node)
    return functions.as_text(value, steps, t.span(node))


def _json(t: Translator, node: Any) -> Typed:
    value, steps = _chain(t, node)
    return functions.as_json(value, steps, t.span(node))


def _path_text(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    keys = t.translate(node.expression)
    return functions.path_text(t.translate(node.this), constant_text("#>>", keys, "path"), t.span(node))


def _path_json(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    keys = t.translate(node.expression)
    steps = functions.path_steps(constant_text("#>", keys, "path"), keys.span)
    if steps[-1].isdigit():
        raise SinkqlError("SQ2214", "#> with a number has no exact form", keys.span, hint="Use -> 0.")
    return functions.as_json(t.translate(node.this), steps, t.span(node))


def _has_key(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    return functions.has_key(t.translate(node.this), t.translate(node.expression), t.span(node))


def _contains(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    return functions.contains(t.translate(node.this), t.translate(node.expression), t.span(node))


def number_text(t: Translator, node: Any, target: Type) -> Typed | None:
    """Return the text of `(j ->> key)::numeric` or other fractions, whose digits a text of its own would lose."""
    inner = _bare(node)
    if not isinstance(inner, exp.JSONExtractScalar) or not (target.name == "numeric" or types.floating(target)):
        return None
    value, steps = _chain(t, inner)
    return functions.as_exact_text(value, steps, t.span(inner))


HANDLERS: dict[type, Handler] = {
    exp.JSONExtractScalar: _text,
    exp.JSONExtract: _json,
    exp.JSONBExtractScalar: _path_text,
    exp.JSONBExtract: _path_json,
    exp.JSONBContainsTopKey: _has_key,
    exp.ArrayContainsAll: _contains,
}
