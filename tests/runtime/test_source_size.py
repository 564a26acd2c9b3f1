"""The sizes of sources without a connection, and their sum."""

from __future__ import annotations

import pytest

from sinkql.connector_api.stream import Size
from sinkql.connectors.constant.reader import ConstantReader
from sinkql.logical.type import BIGINT, TEXT
from sinkql.physical import Column
from sinkql.runtime.batch.clock import ClockReader
from sinkql.runtime.batch.replay import DeadLetterReader


def test_the_size_of_constant_rows_is_that_of_their_texts() -> None:
    reader = ConstantReader((Column("a", BIGINT), Column("b", TEXT)), (("1", "one"), ("22", None)))
    assert Size(2, 6) == reader.size(reader.splits({"at": 0}, {"at": 1}))
    assert Size(0, 0) == reader.size(reader.splits({"at": 1}, {"at": 1}))


def test_the_clock_has_no_rows() -> None:
    assert Size(0, 0) == ClockReader().size([])


def test_the_size_of_dead_letters_is_that_of_their_file() -> None:
    reader = DeadLetterReader(ClockReader())
    assert Size(5, 70) == reader.size([{"rows": 2, "bytes": 30}, {"rows": 3, "bytes": 40}])


@pytest.mark.parametrize(
    ("sizes", "total"),
    [([], Size(0, 0)), ([Size(1, 10), Size(2, 20)], Size(3, 30)), ([Size(1, 10), None, Size(2, 20)], None)],
)
def test_the_size_of_a_job_is_unknown_if_that_of_a_source_is(sizes: list[Size | None], total: Size | None) -> None:
    assert Size.total(sizes) == total
