"""PARTITION BY expression → the partition of each message: the number that a row gives, modulo how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from sinkql import ast, codec, logical
from sinkql.connector_api.types import python_values
from sinkql.errors import SinkqlError
from sinkql.evaluate import NotEvaluableError, function_of
from sinkql.logical.expression import Expression, Reference, walk, without_spans
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.type import decoded, encoded

if TYPE_CHECKING:
    import pyarrow as pa

OPTION = "PARTITION BY"


def plan_partition(option: ast.Option, statement: ast.CreateSink, shape: logical.Shape) -> dict[str, Any]:
    """Return the tree of the expression and the columns that it reads, JSON-able; raises SQ22xx and SQ2368."""
    from sinkql.planner.query.scope import Scope
    from sinkql.planner.query.translate import scalar  # sqlglot, only where there is something to read

    assert isinstance(option.value, ast.Expression)
    tree = scalar(option.value, None, Scope.of((), shape.columns)).tree
    if tree.type.name not in RANGES:
        raise SinkqlError(
            "SQ2368",
            f"{OPTION} takes a whole number, and this is {tree.type}",
            option.value.span,
            hint="Write an expression of an integer type, such as a column with the number of a customer.",
        )
    read = [node for node in walk(tree) if isinstance(node, Reference)]
    if statement.key is not None:
        key = [column.value for column in statement.key.columns]
        for node in read:
            if node.name not in key:
                raise SinkqlError(
                    "SQ2368",
                    f'{OPTION} reads column "{node.name}", which is not in the key',
                    node.span,
                    hint=f"Use columns of KEY ({', '.join(key)}): all messages of a key belong into one partition.",
                )
    columns = list(dict.fromkeys(node.name for node in read))
    if function_of(tree, columns) is None:
        raise SinkqlError(
            "SQ2368",
            f"{OPTION} has a function that sinks do not compute",
            option.value.span,
            hint="Compute the number in a materialized view, as a column of its own.",
        )
    return {"tree": msgspec.json.encode(without_spans(tree), enc_hook=encoded).decode(), "columns": columns}


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The planned expression, and how many partitions there are."""

    planned: Mapping[str, Any]
    count: int

    def of(self, rows: pa.Table) -> pa.Array:
        """Return the partition of each row, the first one where the expression is NULL; raises SQ3201."""
        import pyarrow as pa

        columns = self.planned["columns"]
        value = function_of(codec.decoder(Expression, decoded).decode(self.planned["tree"]), columns)
        assert value is not None, "it was planned"
        given = [python_values(rows.column(name)) for name in columns]
        found = []
        for row in zip(*given, strict=True) if given else [()] * len(rows):
            try:
                number = value(row)
            except (SinkqlError, NotEvaluableError) as error:
                told = error.message if isinstance(error, SinkqlError) else "a value is out of range"
                raise SinkqlError(
                    "SQ3201",
                    f"{OPTION} fails: {told}",
                    detail=f"It fails on the row {dict(zip(columns, map(str, row), strict=True))}.",
                    hint="Write an expression that no row fails on: create the sink anew, into a new topic.",
                ) from None
            found.append(0 if number is None else number % self.count)
        return pa.array(found, pa.int32())
