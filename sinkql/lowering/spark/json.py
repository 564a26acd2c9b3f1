"""Operators and functions of jsonb as Spark SQL; a jsonb is stored as the text that Postgres prints.

Spark's JSON functions rewrite numbers and do not know the length of keys, so they get a *marked* text: each string and
key has a $ before it, and each number, boolean and null is a string that begins with #. Their result is unmarked
again, so that each part keeps its text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sinkql.logical import Call, Expression, Literal
from sinkql.logical.jsonb import is_index, is_plain_key, jsonb, member_order, path_steps
from sinkql.lowering.spark.sql import Form, Spelling, raised, spark_type, text_literal

_Step = str | int
JSON_PART, JSON_TEXT = "sinkql_json_part", "sinkql_json_text"
"""Python functions of a jsonb and a step (`k` and a key, or `i` and an index): the part as jsonb, or as text."""
JSON_PATH, JSON_PATH_TEXT = "sinkql_json_path", "sinkql_json_path_text"
"""Python functions of a jsonb and a path, with the same results."""


def _segments(text: str, outside: str, inside: str) -> str:
    """Return a document with its parts outside of quotes and those inside replaced by texts of `$s`.

    Escape sequences are hidden for that under characters that cannot occur in JSON.
    """
    hidden = rf"replace(replace({text}, r'\\', '\u0001'), r'\"', '\u0002')"
    parts = f"transform(split({hidden}, '\"'), (`$s`, `$i`) -> IF(`$i` % 2 = 0, {outside}, {inside}))"
    return rf"replace(replace(array_join({parts}, ''), '\u0002', r'\"'), '\u0001', r'\\')"


MARKED = _segments("@0", r"""regexp_replace(`$s`, r'[^\[\]{}:, ]+', '"#$0"')""", """concat('"$', `$s`, '"')""")
_ASTRAL = (  # a character that Spark writes as two escapes
    r"array_join(transform(split(`$s`, r'\\u(?=[dD][89abAB])'), (`$p`, `$k`) -> IF(`$k` = 0, `$p`, "
    r"concat(decode(unhex(concat(left(`$p`, 4), substring(`$p`, 7, 4))), 'UTF-16BE'), substring(`$p`, 11)))), '')"
)
_ESCAPES = (
    rf"IF(contains(`$s`, r'\u'), array_join(transform(split({_ASTRAL}, r'\\u00'), (`$p`, `$k`) -> "
    r"IF(`$k` = 0, `$p`, concat(lower(left(`$p`, 2)), substring(`$p`, 3)))), r'\u00'), `$s`)"
)
_UNMARKED = _segments(
    "`$g`",
    "replace(replace(`$s`, ':', ': '), ',', ', ')",
    f"""IF(left(`$s`, 1) = '#', substring(`$s`, 2), concat('"', substring({_ESCAPES}, 2), '"'))""",
)
_CONTROL = (
    r"array_join(transform(split({0}, ''), `$c` -> CASE WHEN `$c` >= ' ' OR `$c` = '' THEN `$c` "
    r"WHEN `$c` = '\u0008' THEN r'\b' WHEN `$c` = '\t' THEN r'\t' WHEN `$c` = '\n' THEN r'\n' "
    r"WHEN `$c` = '\u000C' THEN r'\f' WHEN `$c` = '\r' THEN r'\r' "
    r"ELSE concat(r'\u00', lpad(lower(hex(ascii(`$c`))), 2, '0')) END), '')"
)


def quoted_text(value: str) -> str:
    """Return a text as a string of JSON."""
    escaped = rf"""replace(replace({value}, r'\', r'\\'), '"', r'\"')"""
    special = r"`$q` RLIKE '[\u0001-\u001F]'"
    shown = f"transform(array({escaped}), `$q` -> IF({special}, {_CONTROL.format('`$q`')}, `$q`))[0]"
    return f"""concat('"', {shown}, '"')"""


def _part(marked: str) -> str:
    """Return Spark's result for a marked text as jsonb."""
    return (
        f"transform(array({marked}), `$g` -> CASE WHEN left(`$g`, 1) IN ('{{', '[') THEN {_UNMARKED} "
        f"WHEN left(`$g`, 1) = '$' THEN {quoted_text('substring(`$g`, 2)')} ELSE substring(`$g`, 2) END)[0]"
    )


def _part_text(marked: str) -> str:
    """Return Spark's result for a marked text as text: a string without quotes, NULL for null."""
    return (
        f"transform(array({marked}), `$g` -> CASE WHEN left(`$g`, 1) IN ('{{', '[') THEN {_UNMARKED} "
        "WHEN `$g` = '#null' THEN NULL ELSE substring(`$g`, 2) END)[0]"
    )


def _marked_part(steps: Sequence[_Step]) -> str:
    """Return the marked part at a path of @0; a scalar is its own element 0."""
    if not steps or steps[-1] != 0:
        return f"get_json_object({MARKED}, {path(steps, marked=True)})"
    part = "CASE left(`$b`, 1) WHEN '[' THEN get_json_object(`$b`, '$[0]') WHEN '{' THEN NULL ELSE `$b` END"
    return f"transform(array({_marked_part(steps[:-1])}), `$b` -> {part})[0]"


_NOT_EXACT = r"r'^([{\[]|-?[0-9]+[.eE]|\x22?-?Inf|null$)'"
"""Parts whose text Spark changes, or may change: a number's digits, a space, a null in an array."""
_LONG = 1000
"""The number of digits that Spark reads of a number."""
_TYPEOF = (
    "CASE left(@0, 1) WHEN '{' THEN 'object' WHEN '[' THEN 'array' WHEN '\"' THEN 'string' WHEN 't' THEN 'boolean' "
    "WHEN 'f' THEN 'boolean' WHEN 'n' THEN 'null' ELSE IF(@0 IS NULL, NULL, 'number') END"
)
_ELEMENTS = f"from_json({MARKED}, 'ARRAY<STRING>')"
_MEMBERS = f"from_json({MARKED}, 'MAP<STRING,STRING>')"
_LENGTH = (
    "IF(left(@0, 1) <> '[', CAST(raise_error('cannot get array length of a non-array') AS INT), "
    f"coalesce(json_array_length(@0), size({_ELEMENTS})))"
)
_HAS = (
    f"CASE left(@0, 1) WHEN '{{' THEN array_contains(map_keys({_MEMBERS}), <key>) "
    f"WHEN '[' THEN array_contains({_ELEMENTS}, <key>) WHEN '\"' THEN get_json_object({MARKED}, '$') = <key> "
    "ELSE IF(@0 IS NULL, NULL, false) END"
)

_GETS = ("->(jsonb,text)", "->(jsonb,integer)")
_TEXTS = ("->>(jsonb,text)", "->>(jsonb,integer)")


def path(steps: Sequence[_Step], *, marked: bool = False) -> str:
    """Return a JSON path as a literal; its keys must have a spelling in paths."""
    mark = "$" if marked else ""
    shown = (f"[{step}]" if isinstance(step, int) else f"['{mark}{step}']" for step in steps)
    return text_literal(f"${''.join(shown)}")


def _chain(expression: Expression) -> tuple[Expression, list[_Step]]:
    """Return the start of a chain of ->, and its keys and indexes, which form one path in Spark.

    The steps are empty if Spark has no path for the last one.
    """
    if not isinstance(expression, Call) or expression.function not in (*_GETS, *_TEXTS):
        return expression, []
    below, step = expression.arguments
    whole, steps = _chain(below) if isinstance(below, Call) and below.function in _GETS else (below, [])
    value = _constant(step)
    spelled = is_plain_key(value) if isinstance(value, str) else value is not None and value >= 0
    if value is None or not spelled or (value == 0 and steps[-1:] == [0]):
        return expression, []
    return whole, [*steps, value]


def _one_step(function: str, call: Call) -> Form:
    """Extract a part in Python, by a key or an index that may be computed."""
    step = call.arguments[1]
    constant = _constant(step)
    kind = "i" if step.type.name == "integer" else "k"
    shown = text_literal(f"{kind}{constant}") if constant is not None else f"concat('{kind}', CAST(@1 AS STRING))"
    return Form(f"{function}(@0, {shown})", apart=True)


def _constant(expression: Expression) -> str | int | None:
    value = expression.value if isinstance(expression, Literal) else None
    return value if isinstance(value, str | int) else None


def _text(call: Call) -> Form:
    """Extract a text: by Spark if its result is exact."""
    whole, steps = _chain(call)
    if not steps:
        return _one_step(JSON_TEXT, call)
    slow = _part_text(_marked_part(steps))
    if steps[-1] == 0:
        return Form(slow, operands=(whole,))
    plain = f"get_json_object(@0, {path(steps)})"
    doubtful = f"`$f` RLIKE {_NOT_EXACT} OR `$f` IS NULL AND length(@0) > {_LONG}"
    return Form(f"transform(array({plain}), `$f` -> IF({doubtful}, {slow}, `$f`))[0]", operands=(whole,))


def _json(call: Call) -> Form:
    whole, steps = _chain(call)
    if not steps:
        return _one_step(JSON_PART, call)
    return Form(_part(_marked_part(steps)), operands=(whole,))


def _path_text(call: Call) -> Form:
    """Extract the text at a path: in SQL if only its last step is a number, which may be an index or a key."""
    steps = path_steps(str(_constant(call.arguments[1])))
    keys = [step for step in steps if step is not None and is_plain_key(step)]
    if len(keys) < len(steps) or not keys[-1:] or any(map(is_index, keys[:-1])) or not keys[-1].isdecimal():
        return Form(f"{JSON_PATH_TEXT}(@0, @1)", apart=True)
    index, key = path([*keys[:-1], int(keys[-1])], marked=True), path(keys, marked=True)
    places = ", ".join(f"get_json_object(`$m`, {json_path})" for json_path in (index, key))
    return Form(f"transform(array({MARKED}), `$m` -> {_part_text(f'coalesce({places})')})[0]")


def _has_key(call: Call) -> Form:
    return Form(_HAS.replace("<key>", text_literal(f"${_constant(call.arguments[1])}")))


def _contains(call: Call) -> Form:
    """Compare members, and numbers by their values."""
    wanted = json.loads(jsonb(str(_constant(call.arguments[1]))), parse_int=_Number, parse_float=_Number)
    tests = [f"{_member_is(key, wanted[key])}" for key in sorted(wanted)]
    matching = f"transform(array({MARKED}), `$m` -> {' AND '.join(tests)})[0]"
    return Form(f"IF(@0 IS NULL, NULL, coalesce({matching}, false))")


class _Number(str):
    """A number as its text."""


def _member_is(key: str, wanted: object) -> str:
    value = f"get_json_object(`$m`, {path([key], marked=True)})"
    if isinstance(wanted, _Number):
        value = f"regexp_replace({value}, '^(#-?[0-9]+)[.]0+$', '$1')"
        return f"{value} = {text_literal(f'#{wanted}')}"
    text = f"${wanted}" if isinstance(wanted, str) else f"#{json.dumps(wanted)}"
    return f"{value} = {text_literal(text)}"


def _build_object(call: Call) -> Form:
    """Build an object with constant keys in their order; of equal keys the last value counts."""
    values: dict[str, list[str]] = {}
    for place in range(0, len(call.arguments), 2):
        values.setdefault(str(_constant(call.arguments[place])), []).append(
            _element(f"@{place + 1}", call.arguments[place + 1])
        )
    parts: list[str] = []
    for key in sorted(values, key=member_order):
        *earlier, last = values[key]
        value = f"element_at(array({', '.join([*earlier, last])}), -1)" if earlier else last
        parts += [text_literal(f"{', ' if parts else '{'}{json.dumps(key, ensure_ascii=False)}: "), value]
    return Form(f"concat({', '.join(parts)}, '}}')")


def _build_array(call: Call) -> Form:
    joined = ", ', ', ".join(_element(f"@{place}", argument) for place, argument in enumerate(call.arguments))
    return Form(f"concat('[', {joined}, ']')")


def _element(place: str, value: Expression) -> str:
    if isinstance(value, Literal) and value.text is None:
        return "'null'"
    if value.type.name == "text":
        return f"coalesce({quoted_text(place)}, 'null')"
    return f"coalesce(CAST({place} AS STRING), 'null')"


_IN_ORDER = "array_sort(transform({0}, `$e` -> named_struct('n', octet_length({1}), 'e', `$e`)))"


def _guarded(bracket: str, value: str, failures: Sequence[tuple[str, str]], type_: str) -> str:
    """Return a value of a document that begins with a bracket; other documents fail, depending on their beginning."""
    tests = " ".join(f"WHEN {test} THEN {raised(message, type_)}" for test, message in failures)
    return f"CASE WHEN @0 IS NULL THEN NULL WHEN left(@0, 1) = '{bracket}' THEN {value} {tests} END"


def _shown(call: Call, marked: str) -> str:
    """Return a part of a document, as jsonb or as text."""
    name = call.function.removeprefix("$").removesuffix("(jsonb)")
    return _part_text(marked) if name.endswith("_text") else _part(marked)


def _elements(call: Call) -> Form:
    elements = f"transform({_ELEMENTS}, `$v` -> {_shown(call, '`$v`')})"
    failures = [("left(@0, 1) = '{'", "cannot extract elements from an object")]
    failures.append(("true", "cannot extract elements from a scalar"))
    return Form(_guarded("[", elements, failures, spark_type(call.type)))


def _object_keys(call: Call) -> Form:
    keys_text = f"coalesce(json_object_keys(@0), transform(map_keys({_MEMBERS}), `$k` -> substring(`$k`, 2)))"
    keys = _IN_ORDER.format(keys_text, "`$e`")
    failures = [("left(@0, 1) = '['", "cannot call jsonb_object_keys on an array")]
    failures.append(("true", "cannot call jsonb_object_keys on a scalar"))
    return Form(_guarded("{", f"transform({keys}, `$k` -> `$k`.e)", failures, spark_type(call.type)))


def _entries(call: Call) -> Form:
    """Return the members, in the order of their keys."""
    entry = f"named_struct('key', substring(`$v`.key, 2), 'value', {_shown(call, '`$v`.value')})"
    entries = f"transform(map_entries({_MEMBERS}), `$v` -> {entry})"
    name = call.function.removeprefix("$").removesuffix("(jsonb)")
    return Form(_guarded("{", entries, [("true", f"cannot call {name} on a non-object")], spark_type(call.type)))


FORMS: dict[str, Spelling] = {
    **dict.fromkeys(_GETS, _json),
    **dict.fromkeys(_TEXTS, _text),
    "#>>(jsonb,text)": _path_text,
    "#>(jsonb,text)": Form(f"{JSON_PATH}(@0, @1)", apart=True),
    "?(jsonb,text)": _has_key,
    "@>(jsonb,text)": _contains,
    "jsonb_typeof(jsonb)": Form(_TYPEOF),
    "jsonb_array_length(jsonb)": Form(_LENGTH),
    "to_jsonb(text)": Form(quoted_text("@0")),
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
