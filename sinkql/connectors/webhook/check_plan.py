"""Plan CHECK (…) of a webhook as a typed tree for `check_eval`; an expression that it cannot evaluate is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from sqlglot import exp

from sinkql import ast
from sinkql.connector_api.planning import PlanningContext
from sinkql.connectors.webhook.check_eval import ALGORITHMS, CALLS, ENCODINGS
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.planner.query.translate import expression
from sinkql.planner.syntax.sqlglot_tree import Syntax, string_value

Tree = list[Any]
"""`[operation, …]`, JSON-able: its operands are trees, or plain values for some operations of `check_eval`."""

_COMPARED: Mapping[type, str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_READ = {"this", "expression", "expressions", "negate", "to", "start", "length", "is_string", "table", "safe"}
"""Parts of nodes that are planned here. A node with another part is refused, since its meaning would be lost."""
_NUMBERS = {"BIGINT", "INT", "SMALLINT", "DECIMAL", "DOUBLE"}
_HAS = (
    "It may have comparisons, AND, OR, NOT, IN, IS NULL, ||, + and -, casts from text to numbers, headers->'name', "
    "now(), extract(epoch FROM …), and the functions "
)


@dataclass(frozen=True, slots=True)
class _Typed:
    tree: Tree
    type: str


def plan_check(check: ast.Check, planning: PlanningContext) -> str:
    """Return the tree of a check as JSON; raise SQ2840 for unsupported expressions, SQ2841 for wrong types."""
    syntax, node = expression(check.expression)
    planned = _Planner(syntax, _inputs(check, planning)).typed(node)
    if planned.type not in ("boolean", "unknown"):
        hint = "Compare it with the expected value."
        raise _type_error(f"CHECK is {_type_name(planned.type)}, not boolean", check.expression.span, hint=hint)
    return str(msgspec.json.encode(planned.tree), "utf-8")


def _inputs(check: ast.Check, planning: PlanningContext) -> dict[str, _Typed]:
    """Return the values of the names in a check."""
    inputs: dict[str, _Typed] = {}
    for item in check.inputs:
        match item.kind:
            case "SECRET":
                assert item.secret is not None  # the grammar demands it
                name = item.secret.parts[-1].value
                value = _Typed(["secret", planning.secret(item.secret).name, item.binary], _text(item.binary))
            case kind:
                name = kind.lower()
                type_ = "headers" + (" of bytea" if item.binary else "") if kind == "HEADERS" else _text(item.binary)
                value = _Typed([name, item.binary], type_)
        name = item.alias.value if item.alias is not None else name
        if name in inputs:
            raise _type_error(f'"{name}" is twice in WITH (…)', item.span, hint="Rename one of them with AS.")
        inputs[name] = value
    return inputs


def _text(binary: bool) -> str:
    return "bytea" if binary else "text"


@dataclass(frozen=True, slots=True)
class _Planner:
    syntax: Syntax
    inputs: Mapping[str, _Typed]

    def typed(self, node: Any) -> _Typed:
        plans: Mapping[type, Callable[[Any], _Typed]] = {
            exp.Paren: lambda node: self.typed(node.this),
            exp.Literal: self._literal,
            exp.Boolean: lambda node: _Typed(["constant", bool(node.this)], "boolean"),
            exp.Null: lambda node: _Typed(["constant", None], "unknown"),
            exp.Column: self._column,
            exp.Not: lambda node: _Typed(["not", self.tree_of("boolean", node.this)], "boolean"),
            exp.And: partial(self._both, "and"),
            exp.Or: partial(self._both, "or"),
            exp.Is: self._is_null,
            exp.In: self._in,
            exp.Add: partial(self._numbers, "+"),
            exp.Sub: partial(self._numbers, "-"),
            exp.DPipe: self._joined,
            exp.JSONExtract: self._header,
            exp.Bracket: self._element,
            exp.Cast: self._cast,
            exp.Extract: self._epoch,
            exp.Substring: lambda node: self._call(
                node,
                "substring",
                [argument for argument in (node.this, node.args.get("start"), node.args.get("length")) if argument],
            ),
            exp.Anonymous: lambda node: self._call(node, str(node.this).lower(), node.expressions),
            **dict.fromkeys(_COMPARED, self._compared),
        }
        plan = plans.get(type(node))
        parts = {name for name, value in node.args.items() if value is not None and value is not False and value != []}
        if plan is None or parts - _READ:
            raise self._unsupported_error(node)
        return plan(node)

    def tree_of(self, type_: str, node: Any) -> Tree:
        """Return the tree of a node that must have a type."""
        typed = self.typed(node)
        if not _fits(typed.type, type_):
            raise _type_error(f"this is {_type_name(typed.type)}, not {_type_name(type_)}", self.syntax.span(node))
        return typed.tree

    def _unsupported_error(self, node: Any) -> SinkqlError:
        if isinstance(node, exp.JSONExtractScalar):
            return self._refused_error(node, "->>", "Headers are a map: write headers->'name'.")
        return self._refused_error(node, "this operation", _HAS + ", ".join(sorted(CALLS)) + ".")

    def _refused_error(self, node: Any, what: str, hint: str) -> SinkqlError:
        return SinkqlError("SQ2840", f"CHECK of a webhook cannot have {what}", self.syntax.span(node), hint=hint)

    def _literal(self, node: Any) -> _Typed:
        if node.is_string:
            value = string_value(self.syntax, node)
            return _Typed(["constant", value if value is not None else str(node.this)], "text")
        return _Typed(["number", str(node.this)], "number")

    def _column(self, node: Any) -> _Typed:
        name = node.name if node.this.args.get("quoted") else node.name.lower()
        value = self.inputs.get(name) if not node.table else None
        if value is None:
            near = nearest(name, tuple(self.inputs))
            hint = f'Did you mean "{near}"?' if near else "Add BODY, HEADERS or SECRET name to CHECK (WITH (…) …)."
            if near is None and name in ("body", "headers"):
                hint = f"Write CHECK (WITH ({name.upper()}) …)."
            raise _type_error(f'"{name}" is not in CHECK (WITH (…))', self.syntax.span(node), hint=hint)
        return value

    def _both(self, operation: str, node: Any) -> _Typed:
        return _Typed(
            [operation, self.tree_of("boolean", node.this), self.tree_of("boolean", node.expression)], "boolean"
        )

    def _is_null(self, node: Any) -> _Typed:
        if not isinstance(node.expression, exp.Null):
            raise self._unsupported_error(node)
        tree = ["null", self.typed(node.this).tree]
        return _Typed(["not", tree] if node.args.get("negate") else tree, "boolean")

    def _compared(self, node: Any) -> _Typed:
        return self._comparison(_COMPARED[type(node)], node.this, node.expression, node)

    def _comparison(self, operation: str, one: Any, other: Any, node: Any) -> _Typed:
        left, right = self.typed(one), self.typed(other)
        if not (_fits(left.type, right.type) or _fits(right.type, left.type)) or left.type.startswith("headers"):
            message = f"{_type_name(left.type)} cannot be compared with {_type_name(right.type)}"
            hint = "Use encode(…, 'hex') to get text, or decode(…, 'hex') to get bytea."
            mixed = {left.type, right.type} == {"text", "bytea"}
            raise _type_error(message, self.syntax.span(node), hint=hint if mixed else None)
        return _Typed([operation, left.tree, right.tree], "boolean")

    def _in(self, node: Any) -> _Typed:
        if not node.expressions:
            raise self._unsupported_error(node)
        comparisons = [self._comparison("=", node.this, value, node).tree for value in node.expressions]
        tree = comparisons[0]
        for comparison in comparisons[1:]:
            tree = ["or", tree, comparison]
        return _Typed(tree, "boolean")

    def _numbers(self, operation: str, node: Any) -> _Typed:
        return _Typed([operation, self.tree_of("number", node.this), self.tree_of("number", node.expression)], "number")

    def _joined(self, node: Any) -> _Typed:
        left, right = self.typed(node.this), self.typed(node.expression)
        type_ = left.type if left.type != "unknown" else right.type
        if type_ not in ("text", "bytea") or not _fits(right.type, type_):
            message = f"{_type_name(left.type)} cannot be joined with {_type_name(right.type)}"
            raise _type_error(
                message, self.syntax.span(node), hint="Use convert_from(…, 'utf8') or convert_to(…, 'utf8')."
            )
        return _Typed(["||", left.tree, right.tree], type_)

    def _header(self, node: Any) -> _Typed:
        below = self.typed(node.this)
        if not below.type.startswith("headers"):
            raise self._refused_error(node, "-> of anything but headers", "Write headers->'name'.")
        name = self.tree_of("text", node.expression)
        if name[0] == "constant":
            name = ["constant", name[1].lower()]  # the names of headers are in lower case
        return _Typed(["->", below.tree, name], _text(below.type != "headers"))

    def _element(self, node: Any) -> _Typed:
        if len(node.expressions) != 1:
            raise self._unsupported_error(node)
        return _Typed(["[]", self.tree_of("text[]", node.this), self.tree_of("number", node.expressions[0])], "text")

    def _cast(self, node: Any) -> _Typed:
        below, target = self.typed(node.this), str(node.to.this.value)
        if target in _NUMBERS and _fits(below.type, "text"):
            return _Typed(["to_number", below.tree], "number")
        if target == "TEXT" and _fits(below.type, "text"):
            return _Typed(below.tree, "text")
        if target in ("VARBINARY", "BYTEA") and _fits(below.type, "bytea"):
            return _Typed(below.tree, "bytea")
        hint = "Use convert_from(…, 'utf8'), convert_to(…, 'utf8'), encode or decode."
        raise self._refused_error(node, "this cast", hint)

    def _epoch(self, node: Any) -> _Typed:
        if str(node.this.this).upper() != "EPOCH":
            raise self._refused_error(node, "other parts of a time", "Write extract(epoch FROM now()).")
        return _Typed(["epoch", self.tree_of("time", node.expression)], "number")

    def _call(self, node: Any, name: str, arguments: Sequence[Any]) -> _Typed:
        overloads = CALLS.get(name)
        if overloads is None:
            near = nearest(name, tuple(CALLS))
            hint = f"Did you mean {near}?" if near else f"The functions are {', '.join(sorted(CALLS))}."
            raise self._refused_error(node, f"function {name}", hint)
        typed = [self.typed(argument) for argument in arguments]
        for parameters, result in overloads:
            if len(parameters) == len(typed) and all(map(_fits, (value.type for value in typed), parameters)):
                self._check_words(name, typed, arguments)
                return _Typed(["call", name, *(value.tree for value in typed)], result)
        wanted = " or ".join(f"{name}({', '.join(parameters)})" for parameters, _ in overloads)
        types = ", ".join(value.type for value in typed)
        raise _type_error(f"function {name}({types}) does not exist", self.syntax.span(node), hint=f"Write {wanted}.")

    def _check_words(self, name: str, typed: Sequence[_Typed], arguments: Sequence[Any]) -> None:
        """Refuse encodings, algorithms and patterns that would reject every request."""
        last = typed[-1].tree if typed else ["none"]
        if last[0] != "constant" or last[1] is None:
            return
        span, allowed = self.syntax.span(arguments[-1]), _WORDS.get(name)
        if allowed is not None and last[1].lower() not in allowed:
            raise _type_error(f"{name} has no '{last[1]}'", span, hint=f"Write one of {', '.join(sorted(allowed))}.")
        if name == "regexp_split_to_array":
            try:
                re.compile(last[1])
            except re.error as error:
                raise _type_error(f"the pattern is not a regular expression: {error}", span) from None


_WORDS: Mapping[str, Sequence[str]] = {
    "hmac": tuple(ALGORITHMS),
    "digest": tuple(ALGORITHMS),
    "encode": ENCODINGS,
    "decode": ENCODINGS,
    "convert_from": ("utf8", "utf-8"),
    "convert_to": ("utf8", "utf-8"),
}


def _fits(type_: str, wanted: str) -> bool:
    return type_ in (wanted, "unknown")


def _type_name(type_: str) -> str:
    return {"unknown": "NULL", "headers": "a map of headers", "number": "a number", "time": "a time"}.get(type_, type_)


def _type_error(message: str, span: Span, *, hint: str | None = None) -> SinkqlError:
    return SinkqlError("SQ2841", message, span, hint=hint)
