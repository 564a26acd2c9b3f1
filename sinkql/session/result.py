"""What a statement did, as a value: a tag, notices, and a table where it gives one.

What statements use of the session that runs them.
"""

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
    """A statement's outcome: `columns` is empty where it gives no table; `tag` is such as `CREATE SINK`.

    `types` are those of the columns of a query over items, and empty for what else gives a table. `names` are the full
    names of what was created (or was there already) or dropped; `skipped` says that nothing was done, and a notice why:
    then the tag is not shown. `stream` yields rows for as long as somebody takes them, in the place of `rows`.
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
        """Return the full name of the sink that a CREATE SINK made or found."""
        return self.names[0] if self.tag == "CREATE SINK" else None

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; where `types` is empty, its types are those of the values."""
        import pyarrow as pa

        columns = list(zip(*self.rows, strict=True)) or [() for _ in self.columns]
        types = [arrow_type(str(each)) for each in self.types] or [None] * len(columns)
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
        return pa.table(arrays, names=list(self.columns))

    def df(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; raises ImportError where pandas is not installed."""
        return self.arrow().to_pandas()


class Workspace(Protocol):
    """A session, for the statements that need more of it than its catalog."""

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as statements see it: while a transaction is open, its draft."""

    @property
    def spark(self) -> AdhocSpark:
        """Return what runs queries; it starts Spark at the first one."""

    def tell(self, text: str) -> None:
        """Say how far a statement is that takes long."""

    def context(self, job: physical.Job) -> Context:
        """Return what the parts of a job may use: its folder, secrets' values, object stores."""
