"""The result of a statement, and the protocol by which statements use the session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sinkql import logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.stream import Context
from sinkql.connector_api.types import arrow_type
from sinkql.errors import Notice

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from sinkql.runtime.spark.adhoc import AdhocSpark


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one statement. `tag` names it, for example `CREATE SINK`.

    The table is in `columns` and `rows`; without a table, `columns` is empty. A query over items also has `types`.
    The full names of created, existing or dropped items are in `names`. If a statement did nothing, `skipped` is true,
    and a notice has the reason. SUBSCRIBE yields its rows from `stream` instead of `rows`.
    """

    tag: str
    notices: tuple[Notice, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    names: tuple[str, ...] = ()
    skipped: bool = False
    types: tuple[logical.Type, ...] = ()
    stream: Iterator[tuple[Any, ...]] | None = field(default=None, compare=False)

    @property
    def sink(self) -> str | None:
        """Return the full name of the sink of CREATE SINK, or None."""
        return self.names[0] if self.tag == "CREATE SINK" else None

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table. Without `types`, the types follow from the values."""
        import pyarrow as pa

        columns = list(zip(*self.rows, strict=True)) or [() for _ in self.columns]
        types = [arrow_type(type_) for type_ in self.types] or [None] * len(columns)
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
        return pa.table(arrays, names=list(self.columns))

    def df(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame. Raise ImportError if pandas is not installed."""
        return self.arrow().to_pandas()


class Workspace(Protocol):
    """The parts of a session that statements use besides its catalog."""

    @property
    def catalog(self) -> Catalog:
        """Return the catalog that statements see: the draft of an open transaction, else the committed one."""

    @property
    def spark(self) -> AdhocSpark:
        """Return the query engine, which starts Spark on the first query."""

    def report_progress(self, text: str) -> None:
        """Report the progress of a slow statement."""

    def context(self, job: physical.Job) -> Context:
        """Return the context of a job: its folder, the values of secrets and the object stores."""
