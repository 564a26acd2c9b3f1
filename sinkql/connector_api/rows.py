"""Arrow columns → values as rows hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column's values in Python: lists and records are tuples, equal and hashed by what they hold."""
    import pyarrow as pa

    found: list[Any] = column.to_pylist()
    return list(map(_tuple, found)) if pa.types.is_nested(column.type) else found


def _tuple(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuple, value))
    return tuple(map(_tuple, value.values())) if isinstance(value, dict) else value
