"""Requests become rows of Iceberg tables: a capture process listens, and the sink's batches run without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinkql.session.session import Session
from support.patience import Deadline
from webhook.sending import LAKE, SINK, Sender, capturing, once, path_of, rows


def _session(folder: Path) -> Session:
    session = Session(folder / "catalog.db")
    session.execute(LAKE.format(folder=folder))
    return session


def test_a_request_is_a_row(tmp_path: Path, sender: Sender) -> None:
    with _session(tmp_path) as session:
        session.execute(
            f"CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON WITH (PORT = {sender.port});"
            + SINK.format(name="a", source="s", mode="MODE APPEND")
        )
        with capturing(session):
            sender.listening(path_of("s"))
            assert sender.send(path_of("s"), {"id": 1, "a": "x"}).status == 200
            once(session)
            assert [json.loads(row[0]) for row in rows(tmp_path)] == [{"id": 1, "a": "x"}]


def test_a_run_to_the_end_ends_where_no_request_ever_came(tmp_path: Path, sender: Sender) -> None:
    with _session(tmp_path) as session:
        session.execute(
            f"CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON WITH (PORT = {sender.port});"
            + SINK.format(name="a", source="s", mode="MODE APPEND")
        )
        with capturing(session):
            once(session)
            assert rows(tmp_path) == []
            assert sender.send(path_of("s"), {"id": 1}).status == 200
            once(session)
            assert [json.loads(row[0]) for row in rows(tmp_path)] == [{"id": 1}]


def test_a_secret_that_was_replaced_lets_nobody_in(tmp_path: Path, sender: Sender) -> None:
    with _session(tmp_path) as session:
        session.execute(
            "CREATE SECRET token AS 'old'; CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT "
            "CHECK (WITH (HEADERS, SECRET token) constant_time_eq(headers->'a', token)) "
            f"WITH (PORT = {sender.port});" + SINK.format(name="a", source="s", mode="MODE APPEND")
        )
        with capturing(session):
            sender.listening(path_of("s"))
            assert sender.send(path_of("s"), "x", {"a": "old"}).status == 200
            session.execute("ALTER SECRET token AS 'new'")
            deadline = Deadline()
            while sender.send(path_of("s"), "y", {"a": "old"}).status != 400:
                deadline.check("the new secret")
            assert sender.send(path_of("s"), "z", {"a": "new"}).status == 200
            once(session)
    found = [row[0] for row in rows(tmp_path)]
    assert (found[0], found[-1]) == ("x", "z")
    assert set(found[1:-1]) <= {"y"}


def test_a_query_shows_what_the_log_has(tmp_path: Path, sender: Sender) -> None:
    with _session(tmp_path) as session:
        session.execute(
            f"CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON ARRAY WITH (PORT = {sender.port});"
            + SINK.format(name="a", source="s", mode="MODE APPEND")
        )
        (none,) = session.execute("SELECT * FROM s")
        assert (list(none.rows), [each.code for each in none.notices]) == ([], ["SQ2648"])
        with capturing(session):
            sender.listening(path_of("s"))
            assert [sender.send(path_of("s"), [each, each + 1]).status for each in (1, 3)] == [200] * 2
            once(session)
        (found,) = session.execute("SELECT body FROM s")
        assert [row[0] for row in found.rows] == ["1", "2", "3", "4"]
        (first,) = session.execute("SELECT body FROM s LIMIT 3")
        assert [row[0] for row in first.rows] == ["1", "2", "3"]


@pytest.mark.parametrize("kind", ["SOURCE", "TABLE"])
def test_its_port_can_change(kind: str, tmp_path: Path, sender: Sender, other: Sender) -> None:
    with _session(tmp_path) as session:
        session.execute(
            f"CREATE {kind} s FROM WEBHOOK BODY FORMAT TEXT WITH (PORT = {sender.port});"
            + SINK.format(name="a", source="s", mode="MODE APPEND")
        )
        with capturing(session):
            sender.listening(path_of("s"))
            assert sender.send(path_of("s"), "a").status == 200
            once(session)
            session.execute(f"ALTER {kind} s SET (PORT = {other.port})")
            other.listening(path_of("s"))
            assert other.send(path_of("s"), "b").status == 200
            with pytest.raises(ConnectionRefusedError):
                sender.send(path_of("s"), "x")
            once(session)
    assert [row[0] for row in rows(tmp_path)] == ["a", "b"]
