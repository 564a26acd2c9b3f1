"""EXPLAIN KEY SCHEMA and VALUE SCHEMA show a sink's schemas as it registers them, with DOC ON; fastavro parses them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session

Explain = Callable[[str, str], Any]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "c.db") as session:
        session.execute(
            "CREATE CONNECTION k TO KAFKA (BROKER 'a:1', SECURITY PROTOCOL 'PLAINTEXT') WITH (VALIDATE = false);"
            "CREATE CONNECTION r TO CONFLUENT SCHEMA REGISTRY (URL 'http://a:1') WITH (VALIDATE = false);"
            "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE 'memory', WAREHOUSE 'x') WITH (VALIDATE = false);"
            "CREATE TABLE t (a bigint PRIMARY KEY, b text, c numeric(9, 2));"
        )
        yield session


@pytest.fixture
def explain(session: Session) -> Explain:
    def explained(stage: str, rest: str) -> Any:
        (result,) = session.execute(f"EXPLAIN {stage} FOR {rest}")
        return json.loads("\n".join(row[0] for row in result.rows))

    return explained


def _sink(options: str, envelope: str) -> str:
    schema = f"AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r ({options})"
    return f"CREATE SINK s FROM t INTO KAFKA CONNECTION k (TOPIC 'x') KEY (a) FORMAT {schema} ENVELOPE {envelope}"


def test_schemas_have_what_doc_on_says(explain: Explain) -> None:
    docs = "DOC ON TYPE t 'all', KEY DOC ON COLUMN t.a 'the key', DOC ON COLUMN public.t.a = 'both', "
    docs += "VALUE DOC ON COLUMN materialize.public.t.b 'one'"
    key = explain("KEY SCHEMA", _sink(docs, "UPSERT"))
    field = {"name": "a", "type": "long", "doc": "the key"}
    assert key == {"type": "record", "name": "row", "doc": "all", "fields": [field]}
    value = explain("VALUE SCHEMA AS JSON", _sink(docs, "UPSERT"))
    assert (value["name"], value["doc"]) == ("envelope", "all")
    assert [each.get("doc") for each in value["fields"]] == ["both", "one", None]


def test_comments_stand_where_doc_on_says_nothing(session: Session, explain: Explain) -> None:
    session.execute("COMMENT ON TABLE t IS 'rows'; COMMENT ON COLUMN t.a IS 'number'; COMMENT ON COLUMN t.c IS 'c';")
    docs = "KEY DOC ON COLUMN t.a 'the key', DOC ON COLUMN t.c 'amount'"
    assert explain("KEY SCHEMA", _sink(docs, "UPSERT"))["fields"][0]["doc"] == "the key"
    value = explain("VALUE SCHEMA", _sink(docs, "UPSERT"))
    assert (value["doc"], [each.get("doc") for each in value["fields"]]) == ("rows", ["number", None, "amount"])


def test_records_within_one_of_a_namespace_are_in_it(explain: Explain) -> None:
    value = explain(
        "VALUE SCHEMA", _sink("AVRO VALUE FULLNAME 'com.example.change', DOC ON COLUMN t.b 'x'", "DEBEZIUM")
    )
    parsed = fastavro.parse_schema(value)
    assert isinstance(parsed, dict)
    assert set(parsed["__named_schemas"]) == {"com.example.change", "com.example.row"}
    assert value["fields"][0]["type"][1]["fields"][1]["doc"] == "x"


@pytest.mark.parametrize(
    ("stage", "rest", "message"),
    [
        (
            "KEY SCHEMA",
            "CREATE SINK s FROM t INTO KAFKA CONNECTION k (TOPIC 'x') FORMAT JSON ENVELOPE DEBEZIUM",
            "the sink has no KEY",
        ),
        (
            "VALUE SCHEMA",
            "CREATE SINK s FROM t INTO KAFKA CONNECTION k (TOPIC 'x') KEY (a) FORMAT JSON ENVELOPE UPSERT",
            "FORMAT JSON has no schema",
        ),
        (
            "VALUE SCHEMA",
            "CREATE SINK s FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'n', TABLE 't') MODE APPEND "
            "WITH (COMMIT INTERVAL '1s')",
            "sinks into Iceberg write no messages",
        ),
        ("KEY SCHEMA", "SELECT 1", "only sinks have a KEY SCHEMA"),
    ],
)
def test_what_has_no_schema(stage: str, rest: str, message: str, explain: Explain) -> None:
    with pytest.raises(SinkqlError) as caught:
        explain(stage, rest)
    assert (caught.value.code, caught.value.message) == ("SQ2367", message)
