"""What Spark's wrapper of the one streaming source keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import SimpleDataSourceStreamReader

from sinkql.runtime.spark.source import _Offers


class Steps(SimpleDataSourceStreamReader):  # type: ignore[misc]  # pyspark is not followed by the type checker
    """A reader whose polls find what the test says."""

    def __init__(self, *ends: int) -> None:
        self.ends = list(ends)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return {"at": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        end = {"at": self.ends.pop(0)}
        return iter([(start["at"],)] if end != start else []), end


def test_polls_that_find_nothing_are_forgotten() -> None:
    offers = _Offers(Steps(0, 0, 5, 5))

    found = [offers.latestOffset()["at"] for _ in range(4)]

    assert found == [0, 0, 5, 5]
    assert [(entry.start, entry.end) for entry in offers.cache] == [({"at": 0}, {"at": 5})]
