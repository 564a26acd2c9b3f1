"""Message formats with the same meaning: a row of a key, its deletion, and an invalid message."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

_KEY: Mapping[str, Any] = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
_N: Mapping[str, Any] = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "long"]}]}
_FIELDS = [{"name": "id", "type": "long"}, {"name": "n", "type": ["null", "long"]}]
_ROW: Mapping[str, Any] = {"type": "record", "name": "Row", "fields": _FIELDS}
_ENVELOPE: Mapping[str, Any] = {
    "type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", _ROW]}, {"name": "after", "type": ["null", "Row"]},
        {"name": "op", "type": "string"},
    ],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """A format of messages; `envelope` is empty, upsert or debezium."""

    name: str
    envelope: str
    avro: bool
    inline: bool = False

    @property
    def columns(self) -> str:
        """Return the columns that the source declares."""
        if self.avro:
            return ""
        if self.envelope == "":
            return "(n bigint)"
        return "(id bigint, n bigint, PRIMARY KEY (id) NOT ENFORCED)"

    @property
    def mode(self) -> str:
        """Return the write mode of the sink."""
        return "KEY (id) MODE UPSERT" if self.envelope else "ENVELOPE NONE"

    @property
    def clauses(self) -> str:
        """Return the formats and the envelope of the source."""
        if not self.envelope:
            format_ = f"FORMAT AVRO USING SCHEMA '{json.dumps(_N)}'" if self.avro else "FORMAT JSON"
            return f"{format_} INCLUDE PARTITION WITH (ON ERROR = SKIP)"
        value = _ENVELOPE if self.envelope == "debezium" else _N
        if self.avro:
            key, of_value = (f"AVRO USING SCHEMA '{json.dumps(each)}'" for each in (_KEY, value))
            format_ = f"KEY FORMAT {key} VALUE FORMAT {of_value}"
        else:
            format_ = "FORMAT JSON" if self.envelope == "debezium" else "KEY FORMAT JSON VALUE FORMAT JSON"
        how = " (VALUE DECODING ERRORS = INLINE)" if self.inline else ""
        return f"{format_} ENVELOPE {self.envelope.upper()}{how} WITH (ON ERROR = SKIP)"

    def key(self, id_: int) -> bytes:
        """Return the key of a message."""
        return _avro(_KEY, {"id": id_}) if self.avro else json.dumps({"id": id_}).encode()

    def value(self, what: str, id_: int, number: int, rng: random.Random) -> bytes | None:
        """Return the value of a message; `what` is row, gone (a deletion) or broken."""
        if what == "broken":
            return b"\0\0\0\0\1" if self.avro else b"{broken"
        if self.envelope != "debezium":
            if what == "gone":
                return None
            return _avro(_N, {"n": number}) if self.avro else json.dumps({"n": number}).encode()
        row, gone = {"id": id_, "n": number}, what == "gone"
        op = "d" if gone else rng.choice("cru")
        change = {"before": {"id": id_, "n": None} if gone else None, "after": None if gone else row, "op": op}
        return _avro(_ENVELOPE, change) if self.avro else json.dumps(change).encode()


def _avro(schema: Mapping[str, Any], value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(schema)), value)
    return b"\0\0\0\0\1" + stream.getvalue()


FORMS = {
    each.name: each
    for each in (
        Form("none-json", "", avro=False),
        Form("none-avro", "", avro=True),
        Form("upsert-json", "upsert", avro=False),
        Form("upsert-avro", "upsert", avro=True),
        Form("upsert-inline", "upsert", avro=False, inline=True),
        Form("debezium-json", "debezium", avro=False),
        Form("debezium-avro", "debezium", avro=True),
    )
}
