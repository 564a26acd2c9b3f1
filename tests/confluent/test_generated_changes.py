"""Batches of Debezium's Avro messages decode to fastavro's rows, for generated rows and for damaged messages."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
from hypothesis import given
from hypothesis import strategies as st

from confluent.test_avro import HEAD, columns, named, plain, types, value
from sinkql.connectors.confluent.avro.decode import AvroChanges, WriterSchemas
from sinkql.decode import avro_schema
from sinkql.decode.arrow_values import column_of
from support.examples import examples

Schema = Any
_OPS = ("c", "r", "u", "u", "d", "d", "m", "t", "x")
_ALIVE = ("c", "r", "u")


@st.composite
def _topic(draw: st.DrawFn) -> tuple[Schema, Schema, list[bytes]]:
    """Draw the schema of rows, the schema of messages, and messages; one byte may be changed or missing."""
    fields = [{"name": f"f{place}", "type": each} for place, each in enumerate(draw(st.lists(types(), max_size=3)))]
    own = [{"name": "id", "type": "long"}, *fields]
    row = named({"type": "record", "name": "Value", "fields": draw(st.permutations(own))}, [])
    envelope = [
        {"name": "before", "type": draw(st.permutations(["null", row]))},
        {"name": "after", "type": draw(st.permutations(["null", "Value"]))},
        {"name": "op", "type": "string"}, {"name": "ts_ms", "type": ["null", "long"]},
    ]  # fmt: skip
    schema = {"type": "record", "name": "Envelope", "fields": envelope}
    parsed, messages = fastavro.parse_schema(plain(schema)), []
    for _ in range(draw(st.integers(1, 6))):
        op, stream = draw(st.sampled_from(_OPS)), BytesIO()
        before, after = (value(draw, row) if draw(st.integers(0, 4)) else None for _ in range(2))
        fastavro.schemaless_writer(stream, parsed, {"before": before, "after": after, "op": op, "ts_ms": None})
        messages.append(HEAD + stream.getvalue())
    if draw(st.booleans()):
        place = draw(st.integers(0, len(messages) - 1))
        at = draw(st.integers(len(HEAD), len(messages[place]) - 1))
        other = bytes([draw(st.integers(0, 255))]) if draw(st.booleans()) else b""
        messages[place] = messages[place][:at] + other + messages[place][at + 1 :]
    return row, schema, messages


def _by_fastavro(row: Schema, schema: Schema, message: bytes) -> tuple[int, dict[str, Any]] | str:
    """Return the row's change and the row, or the reason why the message has no row.

    If the reason begins with "?", the decoder under test may accept the message.
    """
    held = avro_schema.columns_of(fastavro.parse_schema(json.loads(json.dumps(row))))
    kept = {**schema, "fields": list(schema["fields"])}
    for place, (name, type_) in enumerate((("before", avro_schema.read_schema(held)), ("after", "row"))):
        branches = ["null" if each == "null" else type_ for each in schema["fields"][place]["type"]]
        kept["fields"][place] = {"name": name, "type": branches}
    stream = BytesIO(message[len(HEAD) :])
    try:
        found: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(kept), None)
    except Exception as error:
        return f"?{type(error).__name__}: {error}"
    if stream.read():
        return "it continues after its end"
    op = found["op"]
    told = found["after"] if op in _ALIVE else found["before"] if op == "d" else None
    if told is None:
        return "rowless" if op == "m" else "no row"
    made = {}
    for column in columns(row):
        failures: dict[int, str] = {}
        if op == "d" and column.name != "id":
            continue
        made[column.name] = column_of(held[column.name].array([told[column.name]]), column.type, failures)
        if failures:
            return failures[0]
    return (-1 if op == "d" else 1), made


@examples(50, 150)
@given(_topic())
def test_changes_are_what_fastavro_reads(topic: tuple[Schema, Schema, list[bytes]]) -> None:
    row, schema, messages = topic
    writers = WriterSchemas((json.dumps(schema),), wire=True, name="data", registry=None)
    found = AvroChanges(columns(row), ("id",), writers).decode(None, messages)
    assert found.places is not None
    places = found.places.tolist()
    rowless = set(found.rowless) - set(found.failures)
    assert sorted([*places, *found.failures, *rowless]) == list(range(len(messages)))
    for place, message in enumerate(messages):
        expected = _by_fastavro(row, schema, message)
        if isinstance(expected, str):
            assert place not in places or expected[0] == "?", (message, expected)
            assert place not in rowless or expected == "rowless" or expected[0] == "?"
        elif place in places:
            at = places.index(place)
            assert found.batch.column("$diff")[at].as_py() == expected[0]
            for name, array in expected[1].items():
                assert found.batch.column(name).slice(at, 1).equals(array), (message, name)
        else:  # fastavro accepts the damage, or does not read the damaged part
            assert place in found.failures
