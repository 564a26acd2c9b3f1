"""Failed notes of the last read position do not stop reading: the next one succeeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sinkql.capture.log_store import FencedLogError
from sinkql.connector_api.read_history import ReadHistory
from sinkql.connectors.mysql.gtid import ReadTransaction as MySqlTransaction
from sinkql.connectors.postgres.history_check import ReadTransaction as PostgresTransaction
from sinkql.errors import SinkqlError
from support.notes import MemoryNotes


@dataclass
class _Notes(MemoryNotes):
    """Notes that raise `error` while it is set."""

    error: Exception | None = None

    def note(self, name: str, data: bytes) -> None:
        if self.error is not None:
            raise self.error
        super().note(name, data)


def _of_mysql(notes: _Notes) -> tuple[Callable[[], None], Callable[[], object], object]:
    history, last = ReadHistory(MySqlTransaction, notes), MySqlTransaction("1", "2", "u:2", 3, "s")
    history.received.append(last)
    return history.save, lambda: history.last("2"), last


def _of_postgres(notes: _Notes) -> tuple[Callable[[], None], Callable[[], object], object]:
    history, last = ReadHistory(PostgresTransaction, notes), PostgresTransaction(1, 2, 3, 4)
    history.received.append(last)
    return history.save, lambda: history.last(2), last


@pytest.mark.parametrize("of", [_of_mysql, _of_postgres])
def test_failed_note_is_written_the_next_time(
    of: Callable[[_Notes], tuple[Callable[[], None], Callable[[], object], object]],
) -> None:
    notes = _Notes()
    keep, last, expected = of(notes)
    for notes.error in (SinkqlError("SQ1001", "the store does not answer"), OSError("no space left")):
        keep()
        assert last() is None
    notes.error = FencedLogError()
    with pytest.raises(FencedLogError):
        keep()
    notes.error = None
    keep()
    assert last() == expected
