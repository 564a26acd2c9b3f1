"""A relation that reads nothing → the rows that it is, which a job reads once."""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from typing import Any

from sinkql import logical, physical
from sinkql.errors import SinkqlError
from sinkql.evaluate import NotEvaluableError
from sinkql.evaluate.relation import rows_of
from sinkql.logical.expression import text_of
from sinkql.logical.type import INTERVAL, TEXT

_MOST_ROWS = 10_000
_NESTED = ("map", "record")


def constant(relation: logical.Relation, catalog: logical.CatalogReader) -> physical.Read | None:
    """Return the read of a relation's rows where they are known by now; None where a job has to compute them.

    Of a row that fails nothing is said here: whether its view is read at all is not known.
    """
    if relation == logical.ONE:
        return _read((physical.Column("$one", "integer", nullable=False),), [["1"]])
    if not _of_itself(relation) or any(_has(each.type, _NESTED) for each in relation.shape.columns):
        return None
    run = rows_of(relation, catalog)
    try:
        rows = list(islice(run(lambda name: []), _MOST_ROWS + 1)) if run is not None else None
    except (NotEvaluableError, SinkqlError):
        return None
    if rows is None or len(rows) > _MOST_ROWS:
        return None
    types = [TEXT if each.type == INTERVAL else each.type for each in relation.shape.columns]
    texts = [
        [None if value is None else text_of(value, of) for value, of in zip(row, types, strict=True)] for row in rows
    ]
    columns = tuple(physical.Column(each.name, str(each.type), each.nullable) for each in relation.shape.columns)
    return _read(columns, texts)


def _read(columns: tuple[physical.Column, ...], rows: list[list[Any]]) -> physical.Read:
    """Return the read; its source is called by what the rows are, so that others are other ones."""
    what = json.dumps([[each.type for each in columns], rows], ensure_ascii=False)
    name = f"constant {hashlib.sha256(what.encode()).hexdigest()[:8]}"
    return physical.Read(name, physical.CONSTANT, {"rows": rows}, columns)


def _of_itself(relation: logical.Relation) -> bool:
    below = logical.inputs_of(relation)
    return all(map(_of_itself, below)) if below else relation == logical.ONE


def _has(type_: logical.Type, names: tuple[str, ...]) -> bool:
    return type_.name in names or (type_.element is not None and _has(type_.element, names))
