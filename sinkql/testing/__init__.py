"""A pipeline in a test: rows in, rows out, without Spark or servers.

* `load`, `loads`: scripts → a `Pipeline`, whose jobs are those that run.
* `pipeline`: `Pipeline`: rows that come and go, batches, the rows of sinks, views and tables.
* `sources`: the rows that a test gives a source, as the source's reader gives them to a batch.
* `rows`: a test's rows ↔ rows of typed values.
* `target`: the batches of one sink or view, and a writer that keeps its rows in memory.
* `rows`: `assert_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sinkql.testing.pipeline import Pipeline, compiled, described
from sinkql.testing.rows import assert_rows

__all__ = ["Pipeline", "assert_rows", "load", "loads"]


def load(path: str | Path, *, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Return the pipeline of a script, or of all scripts of a folder in any order. Raise SinkqlError for an error.

    The pipeline uses no connection and no secret of the script, and leaves no file. A source of files without columns
    has the columns of its files, if there are files.
    """
    found = Path(path)
    return described(found, variables or {}) if found.is_dir() else compiled(found, variables or {})


def loads(text: str, *, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Return the pipeline of a text."""
    return compiled(text, variables or {})
