"""The schema registry of a format and the names in DOC ON are stored as full names, and follow a rename."""

from __future__ import annotations

from pathlib import Path

from sinkql import ast
from sinkql.parser import parse
from sinkql.planner.edit.qualify import mentions, qualify, rename
from sinkql.printer import to_sql
from sinkql.session import Session

_SETUP = """
CREATE SCHEMA other;
SET schema = other;
CREATE CONNECTION k TO KAFKA (BROKER 'a:1', SECURITY PROTOCOL 'PLAINTEXT') WITH (VALIDATE = false);
CREATE CONNECTION r TO CONFLUENT SCHEMA REGISTRY (URL 'http://a:1') WITH (VALIDATE = false);
CREATE TABLE t (a bigint PRIMARY KEY);
"""
_SINK = """
CREATE SINK s FROM t INTO KAFKA CONNECTION k (TOPIC 'x') KEY (a)
  KEY FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r
  VALUE FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r (DOC ON TYPE t 'all', DOC ON COLUMN t.a 'one')
  ENVELOPE UPSERT;
"""


def test_formats_have_full_names(tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SETUP)
        (statement,) = parse(_SINK, session.catalog.registry.keywords)
        assert isinstance(statement, ast.CreateSink)
        full = qualify(statement, session.catalog.reader())
    text = to_sql(full)
    assert text.count("REGISTRY CONNECTION materialize.other.r") == 2
    assert "DOC ON TYPE materialize.other.t = 'all'" in text
    assert "DOC ON COLUMN materialize.other.t.a = 'one'" in text
    assert "materialize.other.r" in mentions(full)
    renamed = to_sql(rename(full, {"materialize.other.r": "materialize.other.q"}))
    assert renamed.count("REGISTRY CONNECTION materialize.other.q") == 2
