"""What the dialect has and this version has not → one coded sentence that names what to use instead."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql.errors import SinkqlError
from sinkql.parser.lexical import Lexeme


def refusal(lexemes: Sequence[Lexeme], place: int) -> SinkqlError | None:
    return None
