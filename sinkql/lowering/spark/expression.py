"""Write expressions as Spark SQL with the results and errors of Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sinkql.logical import Call, Case, Cast, Expression, Literal, Reference
from sinkql.logical.jsonb import jsonb
from sinkql.lowering.spark import (
    json,
    nested,
    number,
    operator,
    string,
    time,
)
from sinkql.lowering.spark import (
    range as spark_range,
)
from sinkql.lowering.spark.cast import cast_form
from sinkql.lowering.spark.sql import Form, Infix, Spelling, Text, fill, infix, literal_text, quoted, text_literal

FORMS: Mapping[str, Spelling] = MappingProxyType(
    {
        **operator.FORMS,
        **number.FORMS,
        **string.FORMS,
        **time.FORMS,
        **json.FORMS,
        **nested.FORMS,
        **spark_range.FORMS,
    }
)
"""The spelling of each function of `logical.function`, by id."""


def spark_sql(expression: Expression) -> str:
    """Return the Spark SQL of an expression; its value has exactly the expression's type."""
    return _text(expression).sql


def order_sql(expression: Expression) -> str:
    """Return the sort key of an expression's values in Spark."""
    sql = spark_sql(expression)
    return nested.ordered(sql, expression.type) if expression.type.name == "array" else sql


def _text(expression: Expression) -> Text:
    match expression:
        case Reference():
            return Text(quoted(expression.name))
        case Literal():
            return literal_text(expression)
        case Cast():
            return _cast(expression)
        case Case():
            return _case(expression)
        case Call():
            return _call(expression)


def _cast(cast: Cast) -> Text:
    if cast.type.name == "jsonb" and isinstance(cast.operand, Literal) and isinstance(cast.operand.value, str):
        return Text(text_literal(jsonb(cast.operand.value)))
    return fill(cast_form(cast), [_text(cast.operand)])


def _case(case: Case) -> Text:
    texts = [(_text(branch.when), _text(branch.then)) for branch in case.branches]
    parts = [f"WHEN {when.sql} THEN {then.sql}" for when, then in texts]
    every = [text for pair in texts for text in pair]
    if case.otherwise is not None:
        every.append(_text(case.otherwise))
        parts.append(f"ELSE {every[-1].sql}")
    return Text(f"CASE {' '.join(parts)} END", apart=any(text.apart for text in every))


def _call(call: Call) -> Text:
    return _filled(spelling(call), call.arguments)


def _filled(form: Form | Infix, arguments: Sequence[Expression]) -> Text:
    operands = [_text(each) for each in (arguments if form.operands is None else form.operands)]
    return fill(form, operands) if isinstance(form, Form) else infix(form, operands)


def spelling(call: Call) -> Form | Infix:
    """Return the form of a call."""
    found = FORMS[call.function]
    return found if isinstance(found, Form | Infix) else found(call)
