"""Python functions for Spark SQL, where Spark cannot compute exactly the result of `evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

from sinkql.evaluate.failure import EvaluationError
from sinkql.evaluate.json import at_path, member, member_text, read, text_at_path
from sinkql.evaluate.number import program_value
from sinkql.logical.type import parse_type
from sinkql.lowering.spark.cast import READ_JSON
from sinkql.lowering.spark.json import JSON_PART, JSON_PATH, JSON_PATH_TEXT, JSON_TEXT
from sinkql.lowering.spark.operator import COMPUTED


def register(session: SparkSession) -> None:
    """Register the functions in the session."""
    for name, function in _FUNCTIONS.items():
        session.udf.register(name, function, StringType())


def _read_json(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return read(text)
    except EvaluationError as error:
        return f"!{error}"


def _computed(program: str, type_: str, *operands: Decimal | None) -> str | None:
    try:
        found = program_value(program, parse_type(type_), operands)
    except EvaluationError as error:
        return f"!{error}"
    if found is None:
        return None
    return repr(found) if isinstance(found, float) else format(found, "f")


def _strict(function: Callable[[str, str], str | None]) -> Callable[[str | None, str | None], str | None]:
    def found(text: str | None, argument: str | None) -> str | None:
        return None if text is None or argument is None else function(text, argument)

    return found


def _step(text: str) -> str | int:
    return text[1:] if text[0] == "k" else int(text[1:])


_FUNCTIONS: dict[str, Callable[..., str | None]] = {
    READ_JSON: _read_json,
    COMPUTED: _computed,
    JSON_PART: _strict(lambda text, step: member(text, _step(step))),
    JSON_TEXT: _strict(lambda text, step: member_text(text, _step(step))),
    JSON_PATH: _strict(at_path),
    JSON_PATH_TEXT: _strict(text_at_path),
}
