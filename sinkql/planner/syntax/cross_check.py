"""Compare sqlglot's tree with the forms of the grammar: both must stand for the same words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from sinkql.planner.syntax.grammar.tokens import Form

PLAIN = ("NUMBER", "STRING", "HEX", "call", "cast", "case", "interval", "label")
"""Kinds of forms that are not operators."""
Range = Callable[[Any], tuple[int, int]]


def first_mismatch(tree: Any, forms: Sequence[Form], text: str, range_: Range) -> Form | None:
    """Return the shortest form that is only in the text or only in the tree, None if both are equal."""
    read = Counter(Form(kind, *range_(node)) for node in tree.walk() if (kind := _kind(node, text, range_)))
    written = Counter(form for form in forms if form.kind in _CHECKED)
    different = (written - read) or (read - written)
    return min(different, key=lambda form: (form.end - form.start, form.start), default=None)


def _kind(node: Any, text: str, range_: Range) -> str | None:
    match node:
        case exp.Not():
            return "NOT" if text[slice(*range_(node))][:3].upper() == "NOT" else None
        case exp.Literal() if isinstance(node.parent, _WITHOUT_FORM):
            subscript = isinstance(node.parent, exp.Bracket) and node.arg_key == "expressions"
            return "STRING" if node.is_string and subscript else None
        case exp.Literal():
            return "STRING" if node.is_string else "NUMBER"
        case exp.Anonymous() if isinstance(node.parent, exp.Table | exp.Lateral | exp.Dot):
            return None  # a relation, or a function with a schema, whose Dot is the call
        case exp.Dot():
            return "call" if isinstance(node.expression, exp.Anonymous) else None
        case exp.Window() if node.arg_key == "windows":
            return None
        case exp.Join():
            return None if text[slice(*range_(node))].startswith(",") else _join(node)
    return _KINDS.get(type(node))


def _join(node: Any) -> str:
    words = [node.args.get("method"), node.args.get("side"), node.args.get("kind")]
    using = "USING" if node.args.get("using") else None
    return " ".join(word for word in (*words, using, "JOIN") if word and word not in ("INNER", "OUTER"))


_WITHOUT_FORM = (exp.DataTypeParam, exp.DataType, exp.Bracket, exp.Parameter)
_KINDS: dict[type, str] = {
    exp.Or: "OR", exp.And: "AND", exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.DPipe: "||", exp.JSONExtract: "->", exp.JSONExtractScalar: "->>", exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>", exp.ArrayContainsAll: "@>", exp.ArrayContainedBy: "<@", exp.ArrayOverlaps: "&&",
    exp.JSONBContainsTopKey: "?",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "#", exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>", exp.RegexpLike: "~", exp.RegexpILike: "~*", exp.StartsWith: "^@", exp.Add: "+",
    exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.Pow: "^", exp.Neg: "-…", exp.BitwiseNot: "~…",
    exp.Between: "BETWEEN", exp.In: "IN", exp.Is: "IS", exp.NullSafeEQ: "IS", exp.NullSafeNEQ: "IS", exp.Like: "LIKE",
    exp.ILike: "ILIKE", exp.Escape: "ESCAPE", exp.AtTimeZone: "AT", exp.Collate: "COLLATE", exp.Case: "case",
    exp.Cast: "cast", exp.Interval: "interval", exp.Alias: "label", exp.Filter: "FILTER", exp.Window: "OVER",
    exp.Anonymous: "call", exp.Extract: "call", exp.Overlay: "call", exp.StrPosition: "call", exp.Substring: "call",
    exp.Trim: "call", exp.ByteString: "STRING", exp.RawString: "STRING", exp.UnicodeString: "STRING",
    exp.National: "STRING", exp.BitString: "STRING", exp.HexString: "HEX",
}  # fmt: skip
_SIDES = ("", "LEFT ", "RIGHT ", "FULL ")
_JOINS = ("CROSS JOIN", *(f"{side}{rest}" for side in _SIDES for rest in ("JOIN", "USING JOIN")))
_CHECKED = frozenset((*_KINDS.values(), *_JOINS, *(f"NATURAL {side}JOIN" for side in _SIDES), "NOT", "NUMBER"))
