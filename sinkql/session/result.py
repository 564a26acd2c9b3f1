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
    """The result of a statement: its tag (for example `CREATE SINK`), notices, and a table if it returns rows.

    `columns` is empty if the statement returns no table. `types` has the column types of a query over items, else it is
    empty. `names` has the full names of items that were created, already existed or were dropped. `skipped` means
    that nothing changed; a notice says why, and the tag is not shown. `stream` replaces `rows` for an endless query.
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
        """Return the full name of the sink that CREATE SINK created, or that already existed."""
        return self.names[0] if self.tag == "CREATE SINK" else None

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table. If `types` is empty, Arrow infers the types from the values."""
        import pyarrow as pa

        columns = list(zip(*self.rows, strict=True)) or [() for _ in self.columns]
        types = [arrow_type(str(type_name)) for type_name in self.types] or [None] * len(columns)
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

    def tell(self, text: str) -> None:
        """Report the progress of a slow statement."""

    def context(self, job: physical.Job) -> Context:
        """Return the context of a job: its folder, the values of secrets and the object stores."""
