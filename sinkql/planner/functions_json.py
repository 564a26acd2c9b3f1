"""Functions and operators of jsonb → Spark SQL; a jsonb is held as the text that Postgres prints."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise

from sinkql.errors import SinkqlError, Span
from sinkql.logical import Type
from sinkql.planner import types
from sinkql.planner.expressions_typed import Typed, constant_in_form, form, text_literal
from sinkql.planner.functions_overload import Handler, Overload, arity, constant_text, typed
from sinkql.planner.types import BOOLEAN, INTEGER, JSONB, TEXT

Step = str | int
_TEXT = (
    "CASE WHEN get_json_object(@0, {0}) RLIKE r'^([{{\\[]|-?[0-9]+[.eE])' "
    "AND left(to_json(variant_get(parse_json(@0), {0})), 1) <> '\"' "
    "THEN CAST(raise_error('->> of an object, array or fraction') AS STRING) ELSE get_json_object(@0, {0}) END"
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
_QUOTED = "substring(to_json(array(@0)), 2, length(to_json(array(@0))) - 2)"

OVERLOADS: dict[str, tuple[Overload, ...]] = {
    "jsonb_typeof": (Overload((JSONB,), TEXT, _TYPEOF),),
    "jsonb_array_length": (Overload((JSONB,), INTEGER, _LENGTH),),
    "to_jsonb": (
        Overload((TEXT,), JSONB, f"IF(@0 IS NULL, NULL, {_QUOTED})"),
        *(
            Overload((type_,), JSONB, "CAST(@0 AS STRING)")
            for type_ in (INTEGER, types.SMALLINT, types.BIGINT, BOOLEAN)
        ),
    ),
}


def path(steps: Sequence[Step], span: Span) -> str:
    """Return a JSON path as a Spark SQL literal; raises SinkqlError (SQ2214) for a key that paths cannot spell."""
    shown = "$"
    for step in steps:
        if isinstance(step, int):
            shown += f"[{step}]"
            continue
        if not re.fullmatch(r"[\w .:/@#$%&+=~-]+", step):
            raise SinkqlError("SQ2214", f"the key '{step}' cannot be looked up", span)
        shown += f"['{step}']"
    if any(isinstance(step, int) and step < 0 for step in steps):
        raise SinkqlError("SQ2214", "a negative index has no exact form", span)
    if any(first == second == 0 for first, second in pairwise(steps)):
        raise SinkqlError("SQ2214", "an element 0 of an element 0 has no exact form", span)
    return constant_in_form(shown)


def as_text(value: Typed, steps: Sequence[Step], span: Span) -> Typed:
    """Plan `value -> … ->> last`."""
    _check(value, span)
    template = _TEXT.format(path(steps, span))
    if steps[-1] == 0:
        if len(steps) == 1:
            raise SinkqlError("SQ2214", "->> 0 of a whole value has no exact form", span, hint="Use jsonb -> 0.")
        # a scalar is its own element 0
        before = path(steps[:-1], span)
        template = f"IF(left({_JSON.format(before)}, 1) IN ('[', '{{'), {template}, {_TEXT.format(before)})"
    return form(template, (value,), TEXT, nullable=True).at(span)


def as_exact_text(value: Typed, steps: Sequence[Step], span: Span) -> Typed:
    """Plan `->>` where its text is read as a number again: fractions are no matter there."""
    _check(value, span)
    return form(f"CAST(variant_get(parse_json(@0), {path(steps, span)}) AS STRING)", (value,), TEXT, nullable=True)


def as_json(value: Typed, steps: Sequence[Step], span: Span) -> Typed:
    """Plan `value -> … -> last`."""
    _check(value, span)
    template = _JSON.format(path(steps, span))
    if steps[-1] == 0:
        whole = "@0" if len(steps) == 1 else _JSON.format(path(steps[:-1], span))
        template = f"IF(left({whole}, 1) IN ('[', '{{'), {template}, {whole})"
    return form(template, (value,), JSONB, nullable=True).at(span)


def path_text(value: Typed, text: str, span: Span) -> Typed:
    """Plan `value #>> '{a,b,0}'`: a last number is an index or a key."""
    steps = path_steps(text, span)
    if not steps[-1].isdigit():
        return as_text(value, steps, span)
    _check(value, span)
    index, key = path([*steps[:-1], int(steps[-1])], span), path(steps, span)
    return form(f"coalesce({_TEXT.format(index)}, {_TEXT.format(key)})", (value,), TEXT, nullable=True)


def path_steps(text: str, span: Span) -> list[str]:
    """Return the keys of a path literal; numbers are keys or indexes, and are refused but at the end."""
    match = re.fullmatch(r"\{([^{}\"\\]+)\}", text)
    steps = [step.strip() for step in match[1].split(",")] if match else []
    if not steps or not all(steps) or any(re.fullmatch(r"-?\d+", step) for step in steps[:-1]) or steps[-1][0] == "-":
        raise SinkqlError("SQ2214", f"the path '{text}' has no exact form", span, hint="Use j -> 'a' -> 0 ->> 'b'.")
    return steps


def has_key(value: Typed, key: Typed, span: Span) -> Typed:
    """Plan `value ? 'key'`."""
    _check(value, span)
    text = constant_text("?", key, "key")
    template = _HAS.format(constant_in_form(text), constant_in_form(json.dumps(text, ensure_ascii=False)))
    return form(template, (value,), BOOLEAN)


def contains(value: Typed, wanted: Typed, span: Span) -> Typed:
    """Plan `value @> '{"key": scalar, …}'`."""
    _check(value, span)
    try:
        found = json.loads(constant_text("@>", wanted, "right side"))
    except ValueError:
        raise SinkqlError("SQ2212", "the right side of @> is not JSON", wanted.span) from None
    if (
        not isinstance(found, dict)
        or not found
        or any(isinstance(each, dict | list | float) for each in found.values())
    ):
        message = "@> takes a flat constant object of texts, integers, booleans and nulls"
        raise SinkqlError("SQ2214", message, wanted.span)
    tests = [
        f"{_JSON.format(path([key], wanted.span))} = {constant_in_form(json.dumps(found[key], ensure_ascii=False))}"
        for key in sorted(found)
    ]
    return form(f"IF(@0 IS NULL, NULL, coalesce({' AND '.join(tests)}, false))", (value,), BOOLEAN)


def _check(value: Typed, span: Span) -> None:
    if value.type != JSONB:
        hint = "Cast it, as in value::jsonb." if value.type == TEXT else None
        raise SinkqlError("SQ2211", f"this operator takes jsonb, found {value.type.name}", span, hint=hint)


def _path_text(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 99)
    keys = [constant_text(name, key, "key") for key in arguments[1:]]
    if any(re.fullmatch(r"-?\d+", key) for key in keys):
        raise SinkqlError("SQ2214", f"{name}() with a number has no exact form", span, hint="Use -> 0.")
    return as_text(arguments[0], keys, span)


def _scalar(name: str, value: Typed) -> Typed:
    if value.type == types.UNKNOWN:
        return typed(name, value, TEXT)
    known: tuple[Type, ...] = (TEXT, types.SMALLINT, INTEGER, types.BIGINT, BOOLEAN)
    if value.type not in known:
        raise SinkqlError("SQ2214", f"{name}() of {value.type.name} has no exact form", value.span)
    return value


def _build_object(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    if not arguments or len(arguments) % 2:
        raise SinkqlError("SQ2211", f"{name}() takes pairs of a key and a value", span)
    parts = []
    for key, value in zip(arguments[::2], arguments[1::2], strict=True):
        parts += [text_literal(constant_text(name, key, "key")), _scalar(name, value).sql]
    shown = f"to_json(named_struct({', '.join(parts)}), map('ignoreNullFields', 'false'))"
    return Typed(shown, JSONB, False, span)


def _build_array(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    parts = []
    for value in arguments:
        if value.null:
            parts.append("'null'")
        elif _scalar(name, value).type == TEXT:
            quoted = form(f"coalesce(to_json(parse_json({_QUOTED})), 'null')", (_scalar(name, value),), TEXT)
            parts.append(quoted.sql)
        else:
            parts.append(f"coalesce(CAST({value.sql} AS STRING), 'null')")
    joined = ", ', ', ".join(parts)
    return Typed(f"concat('[', {joined}, ']')" if parts else "'[]'", JSONB, False, span)


HANDLERS: dict[str, Handler] = {
    "jsonb_extract_path_text": _path_text,
    "jsonb_build_object": _build_object,
    "jsonb_build_array": _build_array,
}
