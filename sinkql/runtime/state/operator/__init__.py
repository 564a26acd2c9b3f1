"""Operators with state: a class for each kind, in a file of its own that is found by listing this folder.

* `protocol`: what such an operator is, and the task that runs it in one bucket.
* `aggregate`: COUNT, SUM, MIN and MAX by group; `aggregate`: what goes into it; `aggregate`: values that are kept
  whole.
* `pick`: one row a key.
* `rank`: the first rows of each partition.
* `recompute`: functions of all rows of a key; `sinkql.runtime.state.window` has these.
* `normalize`: rows that overwrite each other, as rows that come and go.
* `join`: rows of two inputs that belong together.
* `arrange`: rows by a key, as an index of a view keeps them.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from sinkql import physical
from sinkql.runtime.state.operator.protocol import KINDS, StatefulOperator


def stateful(operator: physical.Stateful) -> StatefulOperator:
    """Return the operator with state that a job's struct means."""
    _load()
    return KINDS[type(operator)].of(operator)


@cache
def _load() -> None:
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
