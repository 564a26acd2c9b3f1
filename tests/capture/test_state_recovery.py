"""Recovered state equals the lost state, row by row, although a server leaves values out of changes."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from capture.pipeline import QUICK, SOURCE, Running, Sinks, once, registry
from capture.server import COLUMNS, SCHEMA, Change, FakeStream, Server, position, table
from sinkql import physical
from sinkql.capture.control import SubscribedSink
from sinkql.connector_api.cdc import CapturedTable, RowsChanged, TableRows, Transactions, source_options, table_options
from sinkql.errors import LostStateError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.state import recover_state
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import KeyedRuns, RunLocation, bucket_folder
from sinkql.state_store.directory import StateDirectory
from sinkql.storage.spill import LAST
from support.running import job, loop_of

_UNCHANGED = b"\x02"
_SENT = pa.schema([*list(SCHEMA)[:3], ("$hole", pa.binary()), ("$from", pa.struct([("id", pa.int64())])), SCHEMA[3]])
_FROM = "from "
"""The prefix of a row value that is left out of the change; the row's earlier key follows."""


def _table_with_unchanged_values() -> CapturedTable:
    return replace(table(), has_unchanged_values=True)


@dataclass
class _Stream(FakeStream):
    """A stream that leaves out unchanged values."""

    def _event(self, found: Sequence[tuple[int, str]]) -> RowsChanged:
        changes = [change for _, text in found for change in json.loads(text)]
        ids = [lsn for lsn, _ in found]
        rows = TableRows(pa.RecordBatch.from_pylist([_row(*change[1:]) for change in changes], schema=_SENT))
        return RowsChanged(
            position(self.at), {"t": [rows]}, Transactions([position(each) for each in ids], ids), frozenset()
        )


def _row(key: int, value: str | None) -> dict[str, Any]:
    if value is None:
        return {"id": key, "$diff": -1}
    if not value.startswith(_FROM):
        return {"id": key, "v": value, "$diff": 1}
    before = int(value.removeprefix(_FROM))
    return {"id": key, "$diff": 1, "$hole": _UNCHANGED, "$from": None if before == key else {"id": before}}


@dataclass(frozen=True)
class _Sinks(Sinks):
    """Sinks with a normalized input."""

    def subscribed_sinks(self) -> list[SubscribedSink]:
        return [SubscribedSink(f"id-{name}", _table_with_unchanged_values()) for name in self.names]

    def loop(self, name: str) -> BatchLoop:
        options = table_options(source_options(SOURCE, "pg", {}, self.kept), _table_with_unchanged_values())
        read = physical.Read("t", "FAKE", options, COLUMNS, "upsert", key=("id",), holes=True)
        made = job(physical.Normalize(read, "rows", ("id",)), self.folder, table=name, key=("id",))
        context = self.context(made)
        context.folder.mkdir(parents=True, exist_ok=True)
        return loop_of(made, context, registry())


def _history(rows: dict[int, str], dice: random.Random, turn: int) -> list[Change]:
    """Change the server's rows in one commit; return the changes that it sends."""
    sent: list[Change] = []
    for step in range(dice.randint(1, 3)):
        key, other, what = dice.randrange(6), dice.randrange(6), dice.random()
        if key not in rows or what < 0.2:
            rows[key] = f"{turn}.{step}"
            sent.append(("t", key, rows[key]))
        elif what < 0.3:
            del rows[key]
            sent.append(("t", key, None))
        elif what < 0.5:
            sent.append(("t", key, f"{_FROM}{key}"))
        elif other not in rows:
            rows[other] = rows.pop(key)
            sent += [("t", key, None), ("t", other, f"{_FROM}{key}")]
    return sent


def _contents(found: state.Manifest, folder: Path) -> list[Any]:
    rows: list[Any] = []
    for name, buckets in found["arrangements"].items():
        for bucket, entries in buckets.items():
            values = KeyedRuns(RunLocation(bucket_folder(folder, name, int(bucket)), int(bucket), ""), list(entries))
            live = values.live(0, LAST)
            rows += [(name, bucket, *row.values()) for row in live.to_pylist()] if live is not None else []
    return sorted(rows)


def _check(loop: BatchLoop) -> None:
    """Compare the sink's state with the state recovered from the log."""
    kept = state.load(loop.folder, str(loop.checkpoint.state))
    again = recover_state(
        loop.job,
        loop.readers,
        loop.computation.engine,
        StateDirectory(loop.folder),
        loop.checkpoint,
        LostStateError("SQ3402", "it is lost"),
    )
    assert _contents(again, loop.folder) == _contents(kept, loop.folder)


def _run(seed: int, folder: Path) -> None:
    dice = random.Random(f"rebuilt {seed}")
    server, rows = Server.make(folder / "server.db"), {key: f"old {key}" for key in range(4)}
    sinks = _Sinks(folder)
    server.commit([("t", key, value) for key, value in rows.items()])
    with Running(sinks, replace(QUICK, kept_seconds=3600.0), lambda: _Stream(server)):
        once(sinks)
        for turn in range(5):
            for _ in range(dice.randint(1, 3)):
                if sent := _history(rows, dice, turn):
                    server.commit(sent)
            rows[0] = f"turn {turn}"  # makes a batch, which recovers lost state
            server.commit([("t", 0, rows[0])])
            loop = once(sinks)
            assert sinks.rows() == rows
            if dice.random() < 0.5:
                _check(loop)
            if dice.random() < 0.3:
                shutil.rmtree(loop.folder / "state")
        server.commit([("t", 0, "last")])
        _check(once(sinks))


@pytest.mark.parametrize("seed", range(2))
def test_recovered_state_equals_the_lost_state(seed: int, tmp_path: Path) -> None:
    _run(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 308))
def test_recovered_state_equals_the_lost_state_of_many_histories(seed: int, tmp_path: Path) -> None:
    _run(seed, tmp_path)
