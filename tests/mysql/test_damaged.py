"""A damaged binary log is an error with a hint, and never gives wrong rows."""

from __future__ import annotations

from typing import Any

import pytest

from sinkql.connectors.mysql.binlog import INCIDENT, BinlogReader
from sinkql.connectors.mysql.gtid import DomainTransactions
from sinkql.connectors.mysql.table_map import WatchedTables
from sinkql.errors import SinkqlError


def _event(code: int, body: bytes = b"") -> bytes:
    return b"\0" * 4 + bytes((code,)) + b"\0" * 14 + body


def _walk(*events: bytes) -> Any:
    tables = WatchedTables({("d", "t"): "t1"}, lambda table, layout: True, maria=True)
    log = BinlogReader(DomainTransactions(), tables, maria=True)
    raw, frames, at = b"".join(events), [], 0
    for each in events:
        frames.append((at, at + len(each)))
        at += len(each)
    return log.walk(raw, frames, whole=True)


def test_an_incident_of_the_server_is_told() -> None:
    with pytest.raises(SinkqlError) as caught:
        _walk(_event(INCIDENT))
    assert caught.value.code == "SQ4469"
    assert "ALTER SOURCE … SKIP" in (caught.value.hint or "")


def test_nothing_comes_of_what_is_outside_of_transactions() -> None:
    _, (section,), done = _walk(_event(27), _event(29))
    assert (section.parts, section.ends, done) == ({}, [], 2)
