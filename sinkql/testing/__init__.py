"""Test a pipeline without Spark or servers: insert rows into sources and compare the rows of sinks.

* `pipeline`: `Pipeline` runs the jobs of a script on the rows of a test.
* `sources`: Store the rows that a test inserts, and read them for a job.
* `target`: Run the batches of one sink or view, and store its rows in memory.
* `rows`: Convert a test's rows to typed values, and compare rows with `assert_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sinkql.testing.pipeline import Pipeline, compiled, described
from sinkql.testing.rows import assert_rows

__all__ = ["Pipeline", "assert_rows", "load", "loads"]


def load(path: str | Path, *, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Return the pipeline of a script, or of all scripts of a folder in any order. Raise SinkqlError.

    The pipeline uses no connection and no secret, and leaves no files. A file source without columns gets the columns
    of its files if they exist.
    """
    script = Path(path)
    return described(script, variables or {}) if script.is_dir() else compiled(script, variables or {})


def loads(text: str, *, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Return the pipeline of a script's text."""
    return compiled(text, variables or {})
