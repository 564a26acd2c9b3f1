"""Plan functions and operators of jsonb; their paths are constants, and their keys are text or integers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from sinkql.errors import SinkqlError, Span
from sinkql.logical import Call, Expression, Literal, Type
from sinkql.logical.function import CASTS
from sinkql.logical.jsonb import format_path, is_index, is_plain_key, path_steps
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.operator import part_of
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, constant, exact
from sinkql.planner.function.argument import Handler, arity, constant_text, typed
from sinkql.planner.types import BOOLEAN, INTEGER, JSONB, TEXT, UNKNOWN

_ARRAY = "ARRAY(any…)"
_GETS = ("->(jsonb,text)", "->(jsonb,integer)")


def get(value: Typed, step: Typed, span: Span) -> Typed:
    """Plan `value -> step`."""
    _check(value, span)
    key = _step("->", step)
    return call(f"->(jsonb,{key.type.name})", (value, key), span)


def get_text(value: Typed, step: Typed, span: Span) -> Typed:
    """Plan `value ->> step`."""
    _check(value, span)
    key = _step("->>", step)
    return call(f"->>(jsonb,{key.type.name})", (_with_first_version(value), key), span)


def _with_first_version(value: Typed) -> Typed:
    """Return a value with version 1 of its calls, for results in which its text is not visible, so plans stay equal."""
    return replace(value, tree=_first_version(value.tree))


def _first_version(node: Expression) -> Expression:
    if not isinstance(node, Call) or node.function not in _GETS:
        return node
    below, step = node.arguments
    return msgspec.structs.replace(node, version=1, arguments=(_first_version(below), step))


def _step(operator: str, value: Typed) -> Typed:
    constant_ = value.constant
    if isinstance(constant_, str):
        return constant(constant_, TEXT, value.span)
    return typed(operator, value, TEXT if value.type in (TEXT, UNKNOWN) else INTEGER)


def path_text(value: Typed, path: Typed, span: Span) -> Typed:
    """Plan `value #>> '{a,b,0}'`; a number is an index or a key."""
    _check(value, span)
    text = _constant_path("#>>", path)
    steps = _steps(text, path.span)
    if _are_keys(steps):
        return _get_path_text(value, steps, span)
    return call("#>>(jsonb,text)", (_with_first_version(value), constant(text, TEXT, path.span)), span)


def path_json(value: Typed, path: Typed, span: Span) -> Typed:
    """Plan `value #> '{a,b}'`."""
    _check(value, span)
    text = _constant_path("#>", path)
    steps = _steps(text, path.span)
    if not _are_keys(steps):
        return call("#>(jsonb,text)", (value, constant(text, TEXT, path.span)), span)
    for step in steps:
        value = get(value, constant(step, TEXT, path.span), span)
    return value


def _get_path_text(value: Typed, steps: Sequence[str | None], span: Span) -> Typed:
    for step in steps[:-1]:
        value = get(value, constant(step, TEXT, span), span)
    return get_text(value, constant(steps[-1], TEXT, span), span)


def _constant_path(operator: str, path: Typed) -> str:
    """Return the text of a constant path, which may also be written as ARRAY['a', 'b']."""
    steps = path.tree.arguments if isinstance(path.tree, Call) and path.tree.function == _ARRAY else ()
    if not steps or not all(isinstance(step, Literal) and step.type == TEXT for step in steps):
        return constant_text(operator, path, "path")
    return format_path([step.text for step in steps if isinstance(step, Literal)])


def _steps(text: str, span: Span) -> list[str | None]:
    """Return the steps of a path, which is written as an array."""
    try:
        return path_steps(text)
    except ValueError:
        message = f"invalid input syntax for a path: '{text}'"
        raise SinkqlError("SQ2212", message, span, hint="Write its steps in braces, as '{a,0,b}'.") from None


def _are_keys(steps: Sequence[str | None]) -> bool:
    """Return whether there are steps, and none of them may be an index."""
    return bool(steps) and not any(step is None or is_index(step) for step in steps)


def has_key(value: Typed, key: Typed, span: Span) -> Typed:
    """Plan `value ? 'key'`."""
    _check(value, span)
    return call(
        "?(jsonb,text)", (_with_first_version(value), constant(constant_text("?", key, "key"), TEXT, key.span)), span
    )


def contains(value: Typed, wanted: Typed, span: Span) -> Typed:
    """Plan `value @> '{"key": scalar, …}'`."""
    _check(value, span)
    text = constant_text("@>", wanted, "right side")
    try:
        members = json.loads(text)
    except ValueError:
        raise SinkqlError("SQ2212", "the right side of @> is not valid JSON", wanted.span) from None
    if (
        not isinstance(members, dict)
        or not members
        or any(isinstance(value_, dict | list | float) for value_ in members.values())
    ):
        message = "@> takes a flat constant object of strings, integers, booleans and nulls"
        raise SinkqlError("SQ2214", message, wanted.span)
    for key in members:
        if not is_plain_key(key):
            raise SinkqlError("SQ2214", f"the key '{key}' is not supported here", wanted.span)
    return call("@>(jsonb,text)", (_with_first_version(value), constant(text, TEXT, wanted.span)), span)


def _check(value: Typed, span: Span) -> None:
    if value.type != JSONB:
        hint = "Cast it, as in value::jsonb." if value.type == TEXT else None
        if value.type.name in ("map", "record"):
            hint = part_of(value.type)
        raise SinkqlError("SQ2211", f"this operator takes jsonb, found {value.type.name}", span, hint=hint)


def _path(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    path = format_path([constant_text(name, key, "key") for key in arguments[1:]])
    plan = path_text if name.endswith("_text") else path_json
    value = coerced(arguments[0], JSONB) if arguments[0].type == UNKNOWN else arguments[0]
    return plan(value, constant(path, TEXT, span), span)


def as_json(name: str, value: Typed) -> Typed:
    """Return a value as jsonb, as in Postgres; raise SQ2214 for a type without an exact form."""
    if value.type == UNKNOWN:
        value = typed(name, value, TEXT)
    match value.type.name:
        case "jsonb":
            return value
        case "text" | "smallint" | "integer" | "bigint" | "boolean":
            return call(f"to_jsonb({value.type.name})", (exact(value),), value.span)
        case "numeric" if value.raw != types.NUMERIC:
            return call("to_jsonb(numeric)", (value,), value.span)
        case "date" | "uuid":
            return call("to_jsonb(text)", (cast_to(value, TEXT),), value.span)
        case "timestamp" | "timestamptz":
            return call("to_jsonb(text)", (_iso(value),), value.span)
        case _:
            message = f"{name}() of {value.type.called} is not supported"
            raise SinkqlError("SQ2214", message, value.span, hint=_cast_hint(value.type))


def _cast_hint(type_: Type) -> str | None:
    """Return how to turn a value of a type into a value with a text."""
    match type_.name:
        case "double precision" | "numeric" | "real":
            return "Cast it, as in value::numeric(12,2)."
        case "jsonb":
            return "Extract a text, as in value ->> 'id'."
        case name:
            return "Cast it, as in value::text." if (name, "text") in CASTS else part_of(type_)


def _iso(value: Typed) -> Typed:
    """Return a timestamp's text in JSON: a T between date and time, and a zone with minutes."""
    span = value.span
    parts = [constant(part, TEXT, span) for part in (" ", "T", "+00", "+00:00")]
    text = cast_to(value, TEXT)
    if value.type == types.TIMESTAMPTZ:
        text = call("replace(text,text,text)", (text, *parts[2:]), span)
    return call("replace(text,text,text)", (text, *parts[:2]), span)


def or_null(name: str, value: Typed) -> Typed:
    """Return a value as jsonb, with JSON's null for NULL."""
    json_value = as_json(name, value)
    if not json_value.nullable:
        return json_value
    return call("coalesce(any…)", (json_value, constant("null", JSONB, value.span)), value.span, type_=JSONB)


def key(name: str, value: Typed) -> Typed:
    """Return the key of an object, which fails for NULL; raise SQ2211 unless it is text or an integer."""
    if types.is_signed_integer(value.type) or (value.type.name == "numeric" and value.raw != types.NUMERIC):
        value = cast_to(value, TEXT)
    if value.type != TEXT:
        message = f"the key of {name}() must be text, found {value.type.called}"
        raise SinkqlError("SQ2211", message, value.span, hint=_cast_hint(value.type))
    return call("$key(text)", (value,), value.span)


def _to_jsonb(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 1)
    return as_json(name, arguments[0])


def _scalar(name: str, value: Typed) -> Typed:
    if value.type == types.UNKNOWN:
        return typed(name, value, TEXT)
    scalars: tuple[Type, ...] = (TEXT, types.SMALLINT, INTEGER, types.BIGINT, BOOLEAN)
    if value.type not in scalars:
        raise SinkqlError("SQ2214", f"{name}() of {value.type.name} is not supported", value.span)
    return value


def _build_object(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    if not arguments or len(arguments) % 2:
        raise SinkqlError("SQ2211", f"{name}() takes pairs of keys and values", span)
    parts: list[Typed] = []
    for key, value in zip(arguments[::2], arguments[1::2], strict=True):
        parts += [constant(constant_text(name, key, "key"), TEXT, key.span), _scalar(name, value)]
    return call("jsonb_build_object(any…)", parts, span)


def _build_array(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    if not arguments:
        return call("jsonb_build_array()", (), span)
    return call("jsonb_build_array(any…)", [_scalar(name, value) for value in arguments], span)


HANDLERS: dict[str, Handler] = {
    "jsonb_extract_path": _path,
    "jsonb_extract_path_text": _path,
    "jsonb_build_object": _build_object,
    "jsonb_build_array": _build_array,
    "to_jsonb": _to_jsonb,
}
