"""Stateful operators, a class for each kind; the package finds them by listing its folder.

* `protocol`: The interface of an operator, and the task that runs it in one bucket.
* `aggregate`: COUNT, SUM, MIN and MAX by group.
* `pick`: One row per key.
* `rank`: The first rows of each partition.
* `recompute`: Functions of all rows of a key, from `sinkql.runtime.state.window`.
* `normalize`: Rows that overwrite each other, as insertions and deletions.
* `join`: Joins of two or more inputs.
* `threshold`: A semi join that compares rows with one moving value.
* `temporal_filter`: Rows that are visible from one time to another.
* `arrange`: Rows by a key, as the index of a view.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from sinkql import physical
from sinkql.runtime.state.operator.protocol import KINDS, StatefulOperator


def stateful(operator: physical.Stateful) -> StatefulOperator:
    """Return the stateful operator of a job's struct."""
    _load()
    return KINDS[type(operator)].of(operator)


@cache
def _load() -> None:
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
