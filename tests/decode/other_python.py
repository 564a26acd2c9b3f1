"""Generated inputs → the decoders' results as text, which must not depend on the Python that runs this.

`python tests/decode/other_python.py` prints a line for each input, with the modules on Python's path.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from sinkql.logical.type import BIGINT, BYTEA, DOUBLE, JSONB, TEXT, parse_type

ROOT = Path(__file__).parents[2]
_ROUNDS = 300


def answers() -> Iterator[str]:
    """Yield many inputs of each decoder, each with its outcome."""
    seed = random.Random(11)
    yield from _texts(seed)
    yield from _csv(seed)
    yield from _json(seed)
    yield from _statements(seed)


def _texts(seed: random.Random) -> Iterator[str]:
    from sinkql.decode.text_value import value_of
    from sinkql.logical.jsonb import jsonb, nested_deeply
    from sinkql.logical.nested import read_array, read_map, read_record

    pieces: dict[Callable[[str], Any], tuple[str, tuple[str, ...]]] = {
        read_array: ("{}", ("{", "}", ",", '"', "\\", " ", "a", "1", "NULL", "\n")),
        read_map: ("{}", ("=>", "=", ">", ",", '"', "\\", " ", "x", "9", "null", "{", "}")),
        lambda text: read_record(text, 2): ("()", (",", '"', '""', "\\", "a", " ", "(", ")")),
        lambda text: value_of(text, BYTEA): ("", ("\\", "x", "0f", "A", " ", "\\101", "\\\\", "9")),
        lambda text: value_of(text, DOUBLE): ("", ("1", "0", ".", "e", "-", "+", "9", "nan", " ")),
        lambda text: value_of(text, BIGINT): ("", ("1", "0", "x", "_", "o7", "-", "b", " ")),
        lambda text: value_of(text, parse_type("numeric(38,4)")): ("", ("1", "0", ".", "_", "e", "-", "9", "0x")),
        jsonb: ("[]", ('"', "\\", '\\"', "a", ",", "1", ":", "{", "}", "\\u0000", "\\ud83d", "[", "]")),
        nested_deeply: ("[]", ('"', "\\", '\\"', "[" * 401, "{", "]")),
    }
    for place, (reader, (around, parts)) in enumerate(pieces.items()):
        for _ in range(_ROUNDS):
            inner = "".join(seed.choices(parts, k=seed.randrange(9)))
            text = f"{around[:1]}{inner}{around[1:]}" if seed.random() < 0.8 else inner
            yield f"{place} {text!r}: {_outcome(reader, text)}"


def _outcome(reader: Callable[[str], Any], text: str) -> str:
    try:
        return repr(reader(text))
    except ValueError:
        return "refused"


def _csv(seed: random.Random) -> Iterator[str]:
    from files.copying import FORMS, nasty
    from sinkql.decode.csv import CsvRows
    from sinkql.decode.messages import CsvMessages
    from sinkql.physical import Column

    columns = tuple(Column(f"c{place}", TEXT) for place in range(3))
    for form in FORMS:
        for _ in range(_ROUNDS // 10):
            data = nasty(seed, form, rows=seed.choice([1, 3, 40]), width=3)
            parts = CsvRows(columns, form, header=False).decode(BytesIO(data))
            yield f"{form} {data!r}: {[(part.batch.to_pydict(), part.failures) for part in parts]}"
    pieces = (",", ",", '"', '""', "\n", "a", " ", "\\")
    for _ in range(_ROUNDS // 10):
        messages = ["".join(seed.choices(pieces, k=seed.randrange(9))).encode() for _ in range(10)]
        found = CsvMessages({"header": False}, columns).decode(messages)
        yield f"{messages}: {found.batch.to_pydict()} {sorted(found.failures.items())}"


def _json(seed: random.Random) -> Iterator[str]:
    from sinkql.connector_api.stream import UndecodableError
    from sinkql.connectors.files.json_array import JsonArray
    from sinkql.physical import Column

    pieces = ('{"a": 1}', ",", '"', "\\", '\\"', "[", "]", "{", "}", '{"a": {"b": "}"}}', " ", '{"a": "\\\\"}')
    for _ in range(_ROUNDS):
        data = f"[{','.join(seed.choices(pieces, k=seed.randrange(5)))}]".encode()
        try:
            parts = list(JsonArray((Column("a", JSONB),), whole=False).decode(BytesIO(data)))
            yield f"{data!r}: {[(part.batch.to_pydict(), part.failures) for part in parts]}"
        except UndecodableError as error:
            yield f"{data!r}: {error}"


def _statements(seed: random.Random) -> Iterator[str]:
    from sinkql.errors import SinkqlError
    from sinkql.parser.read.lexer import scan

    pieces = ("'", "''", '"', '""', "\\", "E'", "a", "\n", " ", "--", "/*", "*/", "1", "$$", ";")
    for _ in range(_ROUNDS):
        text = "".join(seed.choices(pieces, k=seed.randrange(12)))
        try:
            yield f"{text!r}: {list(scan(text))}"
        except SinkqlError as error:
            yield f"{text!r}: {error.code} {error.span}"


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for line in answers():
        print(line.encode("unicode_escape").decode())
