"""The sink dies between its dead letters and its commit, and the log is lost: the batch keeps its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from capture.pipeline import QUICK, Running, Sinks, once
from capture.server import FakeStream, Server, rows_of
from sinkql.capture import data_file
from sinkql.capture.buffer import Buffer
from sinkql.capture.log import LogDirectory
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import LogRetention, RowsChanged, TableRows, Transactions
from sinkql.connector_api.stream import Limit, RowError
from support.readers import duckdb_folder


class Picky(FakeStream):
    """A stream with row errors for negative keys."""

    def _event(self, found: Sequence[tuple[int, str]]) -> RowsChanged:
        event = super()._event(found)
        tables: dict[str, list[TableRows]] = {}
        for name, parts in event.tables.items():
            tables[name] = []
            for each in parts:
                keys = each.rows.column("id").to_pylist()
                bad = [RowError(str(key), "SQ3101", "no", str(key).encode()) for key in keys if key < -9]
                fit = each.rows.filter(each.rows.column("id").to_numpy() > -9)
                tables[name].append(replace(each, rows=fit, errors=bad))
        return replace(event, tables=tables)


class _DeadError(Exception):
    """The death of the process."""


def _dies(*arguments: object) -> None:
    raise _DeadError


def _dead_letters(folder: Path) -> list[int]:
    return sorted(int(row[0]) for row in duckdb_folder(str(folder / "lake" / "n" / "a__errors"), "raw"))


@pytest.mark.parametrize("longer", [False, True])
def test_a_batch_with_stored_dead_letters_ends_where_it_did(
    tmp_path: Path, longer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server.make(tmp_path / "server.db")
    server.commit([("t", key, "old") for key in range(5)])
    sinks = Sinks(tmp_path, keeping=LogRetention(on_error="dead letter"))

    def stream() -> FakeStream:
        return Picky(server)

    with Running(sinks, QUICK, stream) as running:
        loop = once(sinks)
        server.commit([("t", -10, "bad"), ("t", 1, "new")])
        start, reader = loop.checkpoint.end, loop.readers["t"]
        running.until(lambda: reader.latest(start["t"], Limit(50)) != start["t"])
        end = {"t": reader.latest(start["t"], Limit(50))}

        with monkeypatch.context() as patched:
            patched.setattr(loop.writer, "commit", _dies)
            with pytest.raises(_DeadError):
                loop.commit_batch(start, end)
    assert _dead_letters(tmp_path) == [-10]
    discard(sinks.directory)
    if longer:  # an entry of the log passes the end of that batch
        server.commit([("t", -11, "bad"), ("t", 2, "new")])
    with Running(sinks, QUICK, stream):
        once(sinks)
        server.commit([("t", -12, "bad"), ("t", 3, "new")])
        once(sinks)
    assert sinks.rows() == {key: value for key, value in server.rows().items() if key >= 0}
    assert _dead_letters(tmp_path) == ([-12, -11, -10] if longer else [-12, -10])


def test_row_errors_are_spilled_before_they_fill_the_memory(tmp_path: Path) -> None:
    store = LogDirectory.local(tmp_path / "log").store
    buffer = Buffer(store, 1)
    errors = [RowError(str(number), "SQ3101", "no", b"x" * 1000) for number in range(1000)]
    rows = replace(rows_of([(1, "new")]), errors=errors)
    buffer.add(RowsChanged("1", {"t": [rows]}, Transactions((), ()), open=True), 0.0)
    assert buffer.bytes > 1_000_000
    buffer.spill()
    assert buffer.bytes == 0
    (file,) = buffer.files["t"]
    assert data_file.read_failures(store, file) == errors
