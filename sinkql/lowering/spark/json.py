"""Operators and functions of jsonb → Spark SQL; a jsonb is held as the text that Postgres prints."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sinkql.logical import Call, Expression, Literal
from sinkql.lowering.spark.text import Form, Spelling, raised, spark_type, text_literal

_Step = str | int
_NOT_EXACT = r"r'^([{{\[]|-?[0-9]+[.eE])'"
"""What the text begins with of an object, an array, and a number whose digits are not kept; for `str.format`."""
_TEXT = (
    f"CASE WHEN get_json_object(@0, {{0}}) RLIKE {_NOT_EXACT} "
    "AND left(to_json(variant_get(parse_json(@0), {0})), 1) <> '\"' "
    f"THEN {raised('->> of an object, array or fraction', 'STRING')} ELSE get_json_object(@0, {{0}}) END"
)
_JSON = "to_json(variant_get(parse_json(@0), {0}))"
_TYPEOF = (
    "CASE left(@0, 1) WHEN '{' THEN 'object' WHEN '[' THEN 'array' WHEN '\"' THEN 'string' WHEN 't' THEN 'boolean' "
    "WHEN 'f' THEN 'boolean' WHEN 'n' THEN 'null' ELSE IF(@0 IS NULL, NULL, 'number') END"
)
_LENGTH = (
    "IF(left(@0, 1) <> '[', CAST(raise_error('cannot get array length of a non-array') AS INT), json_array_length(@0))"
)
_HAS = (
    "CASE left(@0, 1) WHEN '{{' THEN array_contains(json_object_keys(@0), {0}) "
    "WHEN '[' THEN exists(CAST(parse_json(@0) AS ARRAY<VARIANT>), "
    "`$e` -> coalesce(schema_of_variant(`$e`) = 'STRING' AND to_json(`$e`) = {1}, false)) "
    "WHEN '\"' THEN @0 = {1} ELSE IF(@0 IS NULL, NULL, false) END"
)
QUOTED = "substring(to_json(array(@0)), 2, length(to_json(array(@0))) - 2)"

_GETS = ("->(jsonb,text)", "->(jsonb,integer)")
_TEXTS = ("->>(jsonb,text)", "->>(jsonb,integer)")


def path(steps: Sequence[_Step]) -> str:
    """Return a JSON path as a literal; keys are such that paths can spell them."""
    shown = (f"[{step}]" if isinstance(step, int) else f"['{step}']" for step in steps)
    return text_literal(f"${''.join(shown)}")


def _chain(expression: Expression) -> tuple[Expression, list[_Step]]:
    """Return what a chain of -> begins with, and its keys and indexes: it is one path."""
    if not isinstance(expression, Call) or expression.function not in (*_GETS, *_TEXTS):
        return expression, []
    below, step = expression.arguments
    whole, steps = _chain(below) if isinstance(below, Call) and below.function in _GETS else (below, [])
    value = _constant(step)
    assert isinstance(value, str | int)
    return whole, [*steps, value]


def _constant(expression: Expression) -> str | int | None:
    value = expression.value if isinstance(expression, Literal) else None
    return value if isinstance(value, str | int) else None


def _text(call: Call) -> Form:
    whole, steps = _chain(call)
    template = _TEXT.format(path(steps))
    if steps[-1] == 0:
        # a scalar is its own element 0
        before = path(steps[:-1])
        template = f"IF(left({_JSON.format(before)}, 1) IN ('[', '{{'), {template}, {_TEXT.format(before)})"
    return Form(template, operands=(whole,))


def exact_text(expression: Expression) -> Form | None:
    """Return the form of `->>` where its text is read as a number again: fractions are no matter there."""
    if not isinstance(expression, Call) or expression.function not in _TEXTS:
        return None
    whole, steps = _chain(expression)
    return Form(f"CAST(variant_get(parse_json(@0), {path(steps)}) AS STRING)", operands=(whole,))


def _json(call: Call) -> Form:
    whole, steps = _chain(call)
    template = _JSON.format(path(steps))
    if steps[-1] == 0:
        before = "@0" if len(steps) == 1 else _JSON.format(path(steps[:-1]))
        template = f"IF(left({before}, 1) IN ('[', '{{'), {template}, {before})"
    return Form(template, operands=(whole,))


def _path_text(call: Call) -> Form:
    """Take the text at a path whose last step is a number: an index or a key."""
    keys = [step.strip() for step in str(_constant(call.arguments[1])).strip("{}").split(",")]
    index, key = path([*keys[:-1], int(keys[-1])]), path(keys)
    return Form(f"coalesce({_TEXT.format(index)}, {_TEXT.format(key)})")


def _has_key(call: Call) -> Form:
    key = str(_constant(call.arguments[1]))
    return Form(_HAS.format(text_literal(key), text_literal(json.dumps(key, ensure_ascii=False))))


def _contains(call: Call) -> Form:
    wanted = json.loads(str(_constant(call.arguments[1])))
    tests = [
        f"{_JSON.format(path([key]))} = {text_literal(json.dumps(wanted[key], ensure_ascii=False))}"
        for key in sorted(wanted)
    ]
    return Form(f"IF(@0 IS NULL, NULL, coalesce({' AND '.join(tests)}, false))")


def _build_object(call: Call) -> Form:
    parts = ", ".join(f"@{place}" for place in range(len(call.arguments)))
    return Form(f"to_json(named_struct({parts}), map('ignoreNullFields', 'false'))")


def _build_array(call: Call) -> Form:
    joined = ", ', ', ".join(_element(f"@{place}", each) for place, each in enumerate(call.arguments))
    return Form(f"concat('[', {joined}, ']')")


def _element(place: str, value: Expression) -> str:
    if isinstance(value, Literal) and value.text is None:
        return "'null'"
    if value.type.name == "text":
        return f"coalesce(to_json(parse_json({QUOTED.replace('@0', place)})), 'null')"
    return f"coalesce(CAST({place} AS STRING), 'null')"


_IN_ORDER = "array_sort(transform({0}, `$e` -> named_struct('n', octet_length({1}), 'e', `$e`)))"
_ELEMENT_TEXT = (
    "CASE schema_of_variant({0}) WHEN 'STRING' THEN CAST({0} AS STRING) WHEN 'VOID' THEN NULL "
    f"ELSE IF(to_json({{0}}) RLIKE {_NOT_EXACT}, {{1}}, to_json({{0}})) END"
)


def _guarded(bracket: str, value: str, failures: Sequence[tuple[str, str]], type_: str) -> str:
    """Return a value of a document that begins with a bracket; others fail, by what they begin with."""
    tests = " ".join(f"WHEN {test} THEN {raised(message, type_)}" for test, message in failures)
    return f"CASE WHEN @0 IS NULL THEN NULL WHEN left(@0, 1) = '{bracket}' THEN {value} {tests} END"


def _shown(call: Call, variant: str) -> str:
    """Return a part of a document, as jsonb or as text."""
    name = call.function.removeprefix("$").removesuffix("(jsonb)")
    if not name.endswith("_text"):
        return f"to_json({variant})"
    return _ELEMENT_TEXT.format(variant, raised(f"{name}() of an object, array or fraction", "STRING"))


def _elements(call: Call) -> Form:
    elements = f"transform(CAST(parse_json(@0) AS ARRAY<VARIANT>), `$v` -> {_shown(call, '`$v`')})"
    failures = [("left(@0, 1) = '{'", "cannot extract elements from an object")]
    failures.append(("true", "cannot extract elements from a scalar"))
    return Form(_guarded("[", elements, failures, spark_type(call.type)))


def _object_keys(call: Call) -> Form:
    keys = _IN_ORDER.format("json_object_keys(@0)", "`$e`")
    failures = [("left(@0, 1) = '['", "cannot call jsonb_object_keys on an array")]
    failures.append(("true", "cannot call jsonb_object_keys on a scalar"))
    return Form(_guarded("{", f"transform({keys}, `$k` -> `$k`.e)", failures, spark_type(call.type)))


def _entries(call: Call) -> Form:
    """Return the members by key: a map's values cannot be compared, so its keys are ordered."""
    keys = _IN_ORDER.format("map_keys(`$m`)", "`$e`")
    value = _shown(call, "`$v`")
    of_key = f"transform(array(element_at(`$m`, `$k`.e)), `$v` -> {value})[0]"
    entries = f"transform({keys}, `$k` -> named_struct('key', `$k`.e, 'value', {of_key}))"
    found = f"transform(array(CAST(parse_json(@0) AS MAP<STRING, VARIANT>)), `$m` -> {entries})[0]"
    name = call.function.removeprefix("$").removesuffix("(jsonb)")
    return Form(_guarded("{", found, [("true", f"cannot call {name} on a non-object")], spark_type(call.type)))


FORMS: dict[str, Spelling] = {
    **dict.fromkeys(_GETS, _json),
    **dict.fromkeys(_TEXTS, _text),
    "#>>(jsonb,text)": _path_text,
    "?(jsonb,text)": _has_key,
    "@>(jsonb,text)": _contains,
    "jsonb_typeof(jsonb)": Form(_TYPEOF),
    "jsonb_array_length(jsonb)": Form(_LENGTH),
    "to_jsonb(text)": Form(f"IF(@0 IS NULL, NULL, {QUOTED})"),
    **{
        f"to_jsonb({type_})": Form("CAST(@0 AS STRING)")
        for type_ in ("integer", "smallint", "bigint", "boolean", "numeric")
    },
    "$key(text)": Form(f"coalesce(@0, {raised('field name must not be null', 'STRING')})"),
    "$jsonb_array_elements(jsonb)": _elements,
    "$jsonb_array_elements_text(jsonb)": _elements,
    "$jsonb_object_keys(jsonb)": _object_keys,
    "$jsonb_each(jsonb)": _entries,
    "$jsonb_each_text(jsonb)": _entries,
    "jsonb_build_object(any…)": _build_object,
    "jsonb_build_array()": Form("'[]'"),
    "jsonb_build_array(any…)": _build_array,
}
"""By id; keys, indexes and paths are constants."""
