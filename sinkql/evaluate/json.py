"""Operators and functions of jsonb, stored as the text that Postgres prints; numbers keep their digits."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sinkql.evaluate.failure import EvaluationError, Make, Row, Value, strict
from sinkql.logical import Call
from sinkql.logical.jsonb import Digits, index_of, jsonb, member_order, parsed, path_steps, printed

NO_KEY = "field name must not be null"
_MISSING = object()


def member(text: str, step: str | int) -> str | None:
    """Return the text of a document's member or element; a scalar is its own element 0."""
    found = _at(parsed(text), step)
    return None if found is _MISSING else printed(found)


def member_text(text: str, step: str | int) -> str | None:
    """Return a member or element as text; NULL for JSON's null."""
    return shown(_at(parsed(text), step))


def shown(value: Any) -> str | None:
    """Return a part of a document as text: a string without quotes, NULL for null."""
    if value is _MISSING or value is None:
        return None
    return str(value) if isinstance(value, str) else printed(value)


def read(text: str) -> str:
    """Return a text as jsonb; raises EvaluationError for invalid JSON."""
    try:
        return jsonb(text)
    except (ValueError, RecursionError):
        raise EvaluationError("invalid input syntax for type json") from None


def _at(document: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return document.get(step, _MISSING) if isinstance(document, dict) else _MISSING
    if isinstance(document, list):
        return document[step] if -len(document) <= step < len(document) else _MISSING
    return document if step in (0, -1) and not isinstance(document, dict) else _MISSING


def at_path(text: str, path: str) -> str | None:
    """Return the text of the value at a path."""
    found = _at_path(text, path)
    return None if found is _MISSING else printed(found)


def text_at_path(text: str, path: str) -> str | None:
    """Return the value at a path as text; NULL for JSON's null."""
    return shown(_at_path(text, path))


def _at_path(text: str, path: str) -> Any:
    found = parsed(text)
    for step in path_steps(path):
        if isinstance(found, list) and step is not None:
            index = index_of(step)
            found = _MISSING if index is None else _at(found, index)
        else:
            found = _MISSING if step is None else _at(found, step)
    return found


def _typeof(text: str) -> str:
    match parsed(text):
        case dict():
            return "object"
        case list():
            return "array"
        case bool():
            return "boolean"
        case None:
            return "null"
        case Digits():
            return "number"
        case _:
            return "string"


def _length(text: str) -> int:
    found = parsed(text)
    if not isinstance(found, list):
        raise EvaluationError("cannot get array length of a non-array")
    return len(found)


def _has(text: str, key: str) -> bool:
    match parsed(text):
        case dict() as found:
            return key in found
        case list() as found:
            return any(each == key and not isinstance(each, Digits) for each in found)
        case Digits():
            return False
        case found:
            return bool(found == key)


def _contains(text: str, wanted: str) -> bool:
    found = parsed(text)
    return isinstance(found, dict) and all(
        name in found and _same(found[name], value) for name, value in parsed(wanted).items()
    )


def _same(value: Any, wanted: Any) -> bool:
    if isinstance(value, Digits) and isinstance(wanted, Digits):
        return Decimal(value) == Decimal(wanted)
    return type(value) is type(wanted) and bool(value == wanted)


# --- construction ----------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Return a JSON string as jsonb has it."""
    return json.dumps(text, ensure_ascii=False)


def _made(value: Any, type_: str) -> str:
    if value is None:
        return "null"
    match type_:
        case "text" | "unknown":
            return quoted(value)
        case "boolean":
            return "true" if value else "false"
        case "numeric":
            return format(value, "f")
        case _:
            return str(value)


def _scalar(call: Call, operands: list[Value]) -> Value | None:
    type_ = call.arguments[0].type.name
    return strict(lambda value: _made(value, type_))(call, operands)


def _object(call: Call, operands: list[Value]) -> Value | None:
    types = [argument.type.name for argument in call.arguments]

    def found(row: Row) -> str:
        values = [operand(row) for operand in operands]
        members = dict(zip(values[::2], map(_made, values[1::2], types[1::2]), strict=True))
        return object_text(members)

    return found


def object_text(members: dict[str, str]) -> str:
    """Return the text of an object from the texts of its members."""
    listed = (f"{quoted(name)}: {members[name]}" for name in sorted(members, key=member_order))
    return f"{{{', '.join(listed)}}}"


def _array(call: Call, operands: list[Value]) -> Value | None:
    types = [argument.type.name for argument in call.arguments]
    return lambda row: (
        f"[{', '.join(_made(operand(row), type_) for operand, type_ in zip(operands, types, strict=True))}]"
    )


def _key(call: Call, operands: list[Value]) -> Value:
    (operand,) = operands

    def found(row: Row) -> Any:
        value = operand(row)
        if value is None:
            raise EvaluationError(NO_KEY)
        return value

    return found


# --- sets ------------------------------------------------------------------------------------------------------------


def _elements(text: str) -> list[Any]:
    found = parsed(text)
    if not isinstance(found, list):
        what = "an object" if isinstance(found, dict) else "a scalar"
        raise EvaluationError(f"cannot extract elements from {what}")
    return found


def _element_texts(text: str) -> tuple[str | None, ...]:
    return tuple(map(shown, _elements(text)))


def _keys(text: str) -> tuple[str, ...]:
    found = parsed(text)
    if not isinstance(found, dict):
        what = "an array" if isinstance(found, list) else "a scalar"
        raise EvaluationError(f"cannot call jsonb_object_keys on {what}")
    return tuple(sorted(found, key=member_order))


def _entries(name: str, value_of: Callable[[Any], Any]) -> Make:
    def entries(text: str) -> tuple[tuple[str, Any], ...]:
        found = parsed(text)
        if not isinstance(found, dict):
            raise EvaluationError(f"cannot call {name} on a non-object")
        return tuple((key, value_of(found[key])) for key in sorted(found, key=member_order))

    return strict(entries)


FORMS: dict[str, Make] = {
    **dict.fromkeys(("->(jsonb,text)", "->(jsonb,integer)"), strict(member)),
    **dict.fromkeys(("->>(jsonb,text)", "->>(jsonb,integer)"), strict(member_text)),
    "#>(jsonb,text)": strict(at_path),
    "#>>(jsonb,text)": strict(text_at_path),
    "?(jsonb,text)": strict(_has),
    "@>(jsonb,text)": strict(_contains),
    "jsonb_typeof(jsonb)": strict(_typeof),
    "jsonb_array_length(jsonb)": strict(_length),
    **{f"to_jsonb({type_})": _scalar for type_ in ("text", "integer", "smallint", "bigint", "boolean", "numeric")},
    "jsonb_build_object(any…)": _object,
    "jsonb_build_array()": strict(lambda: "[]"),
    "jsonb_build_array(any…)": _array,
    "$key(text)": _key,
    "$jsonb_array_elements(jsonb)": strict(lambda text: tuple(map(printed, _elements(text)))),
    "$jsonb_array_elements_text(jsonb)": strict(_element_texts),
    "$jsonb_object_keys(jsonb)": strict(_keys),
    "$jsonb_each(jsonb)": _entries("jsonb_each", printed),
    "$jsonb_each_text(jsonb)": _entries("jsonb_each_text", shown),
}
"""By id."""
