"""Compute the partition of each message by PARTITION BY: the expression's value modulo the number of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from sinkql import ast, codec, logical
from sinkql.connector_api.types import python_values
from sinkql.connectors.kafka.options import PartitionBy
from sinkql.errors import SinkqlError
from sinkql.evaluate import NotEvaluableError, function_of
from sinkql.logical.expression import Expression, Reference, walk, without_spans
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.type import decoded, encoded

if TYPE_CHECKING:
    import pyarrow as pa

OPTION = "PARTITION BY"


def plan_partition(option: ast.Option, statement: ast.CreateSink, shape: logical.Shape) -> dict[str, Any]:
    """Return the planned expression (`options.PartitionBy`). Raise SQ22xx or SQ2368."""
    from sinkql.planner.query.scope import Scope
    from sinkql.planner.query.translate import scalar  # imports sqlglot

    assert isinstance(option.value, ast.Expression)
    tree = scalar(option.value, None, Scope.of((), shape.columns)).tree
    if tree.type.name not in RANGES:
        raise SinkqlError(
            "SQ2368",
            f"{OPTION} takes a whole number, but the expression is {tree.type}",
            option.value.span,
            hint="Write an expression of an integer type, for example the column of a customer's number.",
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
                    hint=f"Use columns of KEY ({', '.join(key)}): all messages of a key have to be in one partition.",
                )
    columns = list(dict.fromkeys(node.name for node in read))
    if function_of(tree, columns) is None:
        raise SinkqlError(
            "SQ2368",
            f"{OPTION} has a function that sinks cannot compute",
            option.value.span,
            hint="Compute the number as a column of a materialized view.",
        )
    return {"tree": msgspec.json.encode(without_spans(tree), enc_hook=encoded).decode(), "columns": columns}


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The planned expression and the number of partitions."""

    planned: PartitionBy
    count: int

    def of(self, rows: pa.Table) -> pa.Array:
        """Return the partition of each row: the first one if the expression is NULL. Raise SQ3201 if it fails."""
        import pyarrow as pa

        columns = self.planned.columns
        value = function_of(codec.decoder(Expression, decoded).decode(self.planned.tree), columns)
        assert value is not None, "`plan_partition` checked it"
        values = [python_values(rows.column(name)) for name in columns]
        partitions = []
        for row in zip(*values, strict=True) if values else [()] * len(rows):
            try:
                number = value(row)
            except (SinkqlError, NotEvaluableError) as error:
                reason = error.message if isinstance(error, SinkqlError) else "a value is out of range"
                raise SinkqlError(
                    "SQ3201",
                    f"{OPTION} failed: {reason}",
                    detail=f"The row is {dict(zip(columns, map(str, row), strict=True))}.",
                    hint="Use an expression that cannot fail, and recreate the sink with a new topic.",
                ) from None
            partitions.append(0 if number is None else number % self.count)
        return pa.array(partitions, pa.int32())
