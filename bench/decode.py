"""Measure decoding CSV and JSON by column type: rows per CPU-second, and how much slower than text.

Also measures Debezium's updates with and without a schema in each message, compared with their new rows as plain JSON.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable
from io import BytesIO, StringIO

from bench.data import EVENT_COLUMNS
from bench.debezium import event_row
from sinkql.connector_api.stream import Decoder
from sinkql.decode.csv import CsvRows
from sinkql.decode.csv_options import Form
from sinkql.decode.debezium import JsonChanges
from sinkql.decode.json_lines import JsonDecoder
from sinkql.logical.type import BIGINT, TEXT, TIMESTAMPTZ, parse_type
from sinkql.physical import Column

ROWS = 50_000
_MESSAGES = 8192
"""The messages that a source decodes together."""
OTHERS = (
    Column("id", BIGINT),
    Column("name", TEXT),
    Column("at", TIMESTAMPTZ),
    Column("amount", parse_type("numeric(12,2)")),
)
"""The columns of every file besides the measured one."""


def main() -> None:
    """Decode the same rows with a further column of each type, and with its values as text."""
    seed = random.Random(1)
    for type_, text in _values(seed).items():
        texts = [text() for _ in range(ROWS)]
        for format_, made in (("CSV", _csv), ("JSON", _json)):
            data, decoders = made(texts, type_)
            typed, plain = _pair(decoders, data)
            rate = ROWS / typed / 1e6
            print(f"{format_:5} {type_:17} {rate:6.3f} M rows/CPU-s, {typed / plain:5.2f} x the time of text")
    for name, head, tail in (("no schema", b"", b""), ("a schema", _schema(), b"}")):
        update, plain = _updates(head, tail)
        rate = ROWS / update / 1e6
        print(f"Debezium, {name:11} {rate:6.3f} M rows/CPU-s, {update / plain:5.2f} x the time of plain JSON")


def _schema() -> bytes:
    """Return the begin of a message with the schema of its rows, as Kafka Connect's converter writes it."""
    fields = [{"type": "string", "optional": True, "field": name} for name in EVENT_COLUMNS]
    rows = [{"type": "struct", "fields": fields, "optional": True, "field": field} for field in ("before", "after")]
    schema = {"type": "struct", "fields": rows, "optional": False, "name": "server.public.events.Envelope"}
    return b'{"schema":%b,"payload":' % json.dumps(schema, separators=(",", ":")).encode()


def _updates(head: bytes, tail: bytes) -> tuple[float, float]:
    """Return the CPU seconds of updates, with a head and a tail each, and of their new rows, the best of five runs."""
    columns = tuple(Column(name, parse_type(type_), nullable=name != "id") for name, type_ in EVENT_COLUMNS.items())
    rows = [event_row(id_, 1) for id_ in range(ROWS)]
    updates = [b'%b{"before":%b,"after":%b,"op":"u"}%b' % (head, row, row, tail) for row in rows]
    changes, plain = JsonChanges(columns, ("id",)), JsonDecoder(columns)
    decoders: tuple[Callable[[slice], int], ...] = (
        lambda part: changes.decode(None, updates[part]).batch.num_rows,
        lambda part: sum(found.batch.num_rows for found in plain.decode_lines(rows[part])),
    )
    best = [float("inf"), float("inf")]
    for _ in range(5):
        for place, decode in enumerate(decoders):
            begun = time.process_time()
            count = sum(decode(slice(first, first + _MESSAGES)) for first in range(0, ROWS, _MESSAGES))
            best[place] = min(best[place], time.process_time() - begun)
            if count != ROWS:
                raise RuntimeError(f"decoded {count} rows, expected {ROWS}")
    return best[0], best[1]


def _values(seed: random.Random) -> dict[str, Callable[[], str]]:
    return {
        "text": lambda: f"value {seed.randrange(10**6)}",
        "boolean": lambda: seed.choice(("true", "false")),
        "integer": lambda: str(seed.randrange(-(10**9), 10**9)),
        "double precision": lambda: repr(seed.gauss(0, 1000)),
        "numeric(20,4)": lambda: f"{seed.randrange(10**9)}.{seed.randrange(10**4):04}",
        "date": lambda: f"20{seed.randrange(10, 30)}-{seed.randrange(1, 13):02}-{seed.randrange(1, 29):02}",
        "timestamp": lambda: (
            f"2024-02-{seed.randrange(1, 29):02} 12:{seed.randrange(60):02}:00.{seed.randrange(10**6):06}"
        ),
        "timestamptz": lambda: f"2024-02-{seed.randrange(1, 29):02}T12:{seed.randrange(60):02}:00Z",
        "uuid": lambda: str(uuid.UUID(int=seed.getrandbits(128))),
        "bytea": lambda: f"\\x{seed.randbytes(12).hex()}",
        "jsonb": lambda: json.dumps({"id": seed.randrange(1000), "kind": "order", "tags": ["a", "b"]}),
    }


def _csv(texts: list[str], type_: str) -> tuple[bytes, tuple[Decoder, Decoder]]:
    file = StringIO()
    for number, text in enumerate(texts):
        quoted = text.replace('"', '""')
        file.write(f'{number},name {number},2024-02-29T12:30:00Z,{number}.25,"{quoted}"\n')
    return file.getvalue().encode(), (
        CsvRows((*OTHERS, Column("x", parse_type(type_))), Form(), header=False),
        CsvRows((*OTHERS, Column("x", TEXT)), Form(), header=False),
    )


def _json(texts: list[str], type_: str) -> tuple[bytes, tuple[Decoder, Decoder]]:
    """Return lines that have each value both in its JSON type and as text, and decoders of both."""
    bare = type_ in ("boolean", "integer", "double precision", "numeric(20,4)", "jsonb")
    lines = [
        f'{{"id": {number}, "name": "name {number}", "at": "2024-02-29T12:30:00Z", "amount": {number}.25, '
        f'"t": {json.dumps(text)}, "x": {text if bare else json.dumps(text)}}}\n'
        for number, text in enumerate(texts)
    ]
    return "".join(lines).encode(), (
        JsonDecoder((*OTHERS, Column("x", parse_type(type_)))),
        JsonDecoder((*OTHERS, Column("t", TEXT))),
    )


def _pair(decoders: tuple[Decoder, Decoder], data: bytes) -> tuple[float, float]:
    """Return the CPU seconds of both decoders, the best of five alternating runs."""
    best = [float("inf"), float("inf")]
    for _ in range(5):
        for place, decoder in enumerate(decoders):
            begun = time.process_time()
            rows = sum(part.batch.num_rows for block in _blocks(data) for part in decoder.decode(BytesIO(block)))
            best[place] = min(best[place], time.process_time() - begun)
            if rows != ROWS:
                raise RuntimeError(f"decoded {rows} rows, expected {ROWS}")
    return best[0], best[1]


def _blocks(data: bytes) -> list[bytes]:
    """Split data into blocks of about a megabyte that end with a line, like a reader of files."""
    found, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at + (1 << 20)) + 1 or len(data)
        found.append(data[at:end])
        at = end
    return found


if __name__ == "__main__":
    main()
