"""CHECK (…) of a webhook → a tree with types, as data, that `judge` evaluates; anything that it cannot is refused."""

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
"""`[operation, …]`, JSON-able: its operands are trees, or plain where `judge` says so."""

_COMPARED: Mapping[type, str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_READ = {"this", "expression", "expressions", "negate", "to", "start", "length", "is_string", "table", "safe"}
"""Parts of nodes that are read here, or refused: one that is not would be left out, and another check be made."""
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
    """Return the tree of a check, as JSON; raises SQ2840 for what none may have, SQ2841 for types that do not fit."""
    syntax, node = expression(check.expression)
    found = _Planner(syntax, _inputs(check, planning)).typed(node)
    if found.type not in ("boolean", "unknown"):
        hint = "Compare it with what it has to be."
        raise _unfit(f"CHECK is {_called(found.type)}, and not boolean", check.expression.span, hint=hint)
    return str(msgspec.json.encode(found.tree), "utf-8")


def _inputs(check: ast.Check, planning: PlanningContext) -> dict[str, _Typed]:
    """Return what the names in a check stand for."""
    found: dict[str, _Typed] = {}
    for each in check.inputs:
        match each.kind:
            case "SECRET":
                assert each.secret is not None  # the grammar demands it
                name = each.secret.parts[-1].value
                value = _Typed(["secret", planning.secret(each.secret).name, each.binary], _text(each.binary))
            case kind:
                name = kind.lower()
                type_ = "headers" + (" of bytea" if each.binary else "") if kind == "HEADERS" else _text(each.binary)
                value = _Typed([name, each.binary], type_)
        name = each.alias.value if each.alias is not None else name
        if name in found:
            raise _unfit(f'"{name}" is twice in WITH (…)', each.span, hint="Give one of them another name with AS.")
        found[name] = value
    return found


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
            exp.Not: lambda node: _Typed(["not", self.of("boolean", node.this)], "boolean"),
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
                [each for each in (node.this, node.args.get("start"), node.args.get("length")) if each],
            ),
            exp.Anonymous: lambda node: self._call(node, str(node.this).lower(), node.expressions),
            **dict.fromkeys(_COMPARED, self._compared),
        }
        plan = plans.get(type(node))
        given = {name for name, value in node.args.items() if value is not None and value is not False and value != []}
        if plan is None or given - _READ:
            raise self._not_here(node)
        return plan(node)

    def of(self, type_: str, node: Any) -> Tree:
        """Return the tree of a node that has to be of a type."""
        found = self.typed(node)
        if not _fits(found.type, type_):
            raise _unfit(f"this is {_called(found.type)}, and not {_called(type_)}", self.syntax.span(node))
        return found.tree

    def _not_here(self, node: Any) -> SinkqlError:
        if isinstance(node, exp.JSONExtractScalar):
            return self._refused(node, "->>", "Headers are a map: write headers->'name'.")
        return self._refused(node, "this operation", _HAS + ", ".join(sorted(CALLS)) + ".")

    def _refused(self, node: Any, what: str, hint: str) -> SinkqlError:
        return SinkqlError("SQ2840", f"CHECK of a webhook cannot have {what}", self.syntax.span(node), hint=hint)

    def _literal(self, node: Any) -> _Typed:
        if node.is_string:
            value = string_value(self.syntax, node)
            return _Typed(["constant", value if value is not None else str(node.this)], "text")
        return _Typed(["number", str(node.this)], "number")

    def _column(self, node: Any) -> _Typed:
        name = node.name if node.this.args.get("quoted") else node.name.lower()
        found = self.inputs.get(name) if not node.table else None
        if found is None:
            near = nearest(name, tuple(self.inputs))
            hint = f'Did you mean "{near}"?' if near else "Add BODY, HEADERS or SECRET name to CHECK (WITH (…) …)."
            if near is None and name in ("body", "headers"):
                hint = f"Write CHECK (WITH ({name.upper()}) …)."
            raise _unfit(f'"{name}" is not in CHECK (WITH (…))', self.syntax.span(node), hint=hint)
        return found

    def _both(self, operation: str, node: Any) -> _Typed:
        return _Typed([operation, self.of("boolean", node.this), self.of("boolean", node.expression)], "boolean")

    def _is_null(self, node: Any) -> _Typed:
        if not isinstance(node.expression, exp.Null):
            raise self._not_here(node)
        tree = ["null", self.typed(node.this).tree]
        return _Typed(["not", tree] if node.args.get("negate") else tree, "boolean")

    def _compared(self, node: Any) -> _Typed:
        return self._comparison(_COMPARED[type(node)], node.this, node.expression, node)

    def _comparison(self, operation: str, one: Any, other: Any, node: Any) -> _Typed:
        left, right = self.typed(one), self.typed(other)
        if not (_fits(left.type, right.type) or _fits(right.type, left.type)) or left.type.startswith("headers"):
            message = f"{_called(left.type)} cannot be compared with {_called(right.type)}"
            hint = "Use encode(…, 'hex') to get text, or decode(…, 'hex') to get bytea."
            mixed = {left.type, right.type} == {"text", "bytea"}
            raise _unfit(message, self.syntax.span(node), hint=hint if mixed else None)
        return _Typed([operation, left.tree, right.tree], "boolean")

    def _in(self, node: Any) -> _Typed:
        if not node.expressions:
            raise self._not_here(node)
        found = [self._comparison("=", node.this, each, node).tree for each in node.expressions]
        tree = found[0]
        for each in found[1:]:
            tree = ["or", tree, each]
        return _Typed(tree, "boolean")

    def _numbers(self, operation: str, node: Any) -> _Typed:
        return _Typed([operation, self.of("number", node.this), self.of("number", node.expression)], "number")

    def _joined(self, node: Any) -> _Typed:
        left, right = self.typed(node.this), self.typed(node.expression)
        type_ = left.type if left.type != "unknown" else right.type
        if type_ not in ("text", "bytea") or not _fits(right.type, type_):
            message = f"{_called(left.type)} cannot be joined with {_called(right.type)}"
            raise _unfit(message, self.syntax.span(node), hint="Use convert_from(…, 'utf8') or convert_to(…, 'utf8').")
        return _Typed(["||", left.tree, right.tree], type_)

    def _header(self, node: Any) -> _Typed:
        below = self.typed(node.this)
        if not below.type.startswith("headers"):
            raise self._refused(node, "-> of anything but headers", "Write headers->'name'.")
        name = self.of("text", node.expression)
        if name[0] == "constant":
            name = ["constant", name[1].lower()]  # as they all are
        return _Typed(["->", below.tree, name], _text(below.type != "headers"))

    def _element(self, node: Any) -> _Typed:
        if len(node.expressions) != 1:
            raise self._not_here(node)
        return _Typed(["[]", self.of("text[]", node.this), self.of("number", node.expressions[0])], "text")

    def _cast(self, node: Any) -> _Typed:
        below, target = self.typed(node.this), str(node.to.this.value)
        if target in _NUMBERS and _fits(below.type, "text"):
            return _Typed(["to_number", below.tree], "number")
        if target == "TEXT" and _fits(below.type, "text"):
            return _Typed(below.tree, "text")
        if target in ("VARBINARY", "BYTEA") and _fits(below.type, "bytea"):
            return _Typed(below.tree, "bytea")
        hint = "Use convert_from(…, 'utf8'), convert_to(…, 'utf8'), encode or decode."
        raise self._refused(node, "this cast", hint)

    def _epoch(self, node: Any) -> _Typed:
        if str(node.this.this).upper() != "EPOCH":
            raise self._refused(node, "other parts of a time", "Write extract(epoch FROM now()).")
        return _Typed(["epoch", self.of("time", node.expression)], "number")

    def _call(self, node: Any, name: str, arguments: Sequence[Any]) -> _Typed:
        overloads = CALLS.get(name)
        if overloads is None:
            near = nearest(name, tuple(CALLS))
            hint = f"Did you mean {near}?" if near else f"The functions are {', '.join(sorted(CALLS))}."
            raise self._refused(node, f"function {name}", hint)
        found = [self.typed(each) for each in arguments]
        for parameters, result in overloads:
            if len(parameters) == len(found) and all(map(_fits, (each.type for each in found), parameters)):
                self._check_words(name, found, arguments)
                return _Typed(["call", name, *(each.tree for each in found)], result)
        wanted = " or ".join(f"{name}({', '.join(parameters)})" for parameters, _ in overloads)
        given = ", ".join(each.type for each in found)
        raise _unfit(f"there is no {name}({given})", self.syntax.span(node), hint=f"Write {wanted}.")

    def _check_words(self, name: str, found: Sequence[_Typed], arguments: Sequence[Any]) -> None:
        """Refuse encodings, algorithms and patterns that no request would get past."""
        last = found[-1].tree if found else ["none"]
        if last[0] != "constant" or last[1] is None:
            return
        span, known = self.syntax.span(arguments[-1]), _WORDS.get(name)
        if known is not None and last[1].lower() not in known:
            raise _unfit(f"{name} has no '{last[1]}'", span, hint=f"Write one of {', '.join(sorted(known))}.")
        if name == "regexp_split_to_array":
            try:
                re.compile(last[1])
            except re.error as error:
                raise _unfit(f"the pattern is not a regular expression: {error}", span) from None


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


def _called(type_: str) -> str:
    return {"unknown": "NULL", "headers": "a map of headers", "number": "a number", "time": "a time"}.get(type_, type_)


def _unfit(message: str, span: Span, *, hint: str | None = None) -> SinkqlError:
    return SinkqlError("SQ2841", message, span, hint=hint)
