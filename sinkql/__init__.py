"""SinkQL: Materialize-style SQL into exactly-once Apache Iceberg pipelines on PySpark.

Public functions: `connect` opens a catalog and returns a session, `compile` plans a script as data, `parse` returns the
statements of a script.

* `cli`: The command line.
* `shell`: The interactive SQL shell.
* `testing`: Test pipelines in pytest, without Spark and servers.
* `session`: Run statements against a catalog.
* `program`: Compile and lint scripts without a catalog.
* `statement`: Statements to operations, which sessions and programs execute.
* `script`: Split, format and redact scripts, and replace variables.
* `parser`: SQL text to statements.
* `ast`: The statements.
* `printer`: Statements to canonical SQL text.
* `keywords`: The words of the language and of connectors.
* `catalog`: Items, and the coordination of processes, in SQLite or Postgres.
* `planner`: Statements to logical plans.
* `logical`: Logical plans: items, relations, expressions, types, functions.
* `lowering`: Logical plans to the jobs of sinks and views.
* `physical`: Jobs as data: operators, column pruning, identity, evolution.
* `explain`: Plans as text trees.
* `evaluate`: Expressions in plain Python.
* `runtime`: Run jobs: processes, sinks, batches, state, Spark.
* `capture`: Capture changes of a database once for all sinks.
* `connectors`: Sources, sinks and connections.
* `connector_api`: The interface that connectors implement.
* `decode`: Decode records of all formats to Arrow.
* `table`: The rows of tables that INSERT, UPDATE and DELETE change.
* `state_store`: The state of sinks, on this machine and in a store.
* `object_store`: Clients of object stores.
* `row_hash`: Hash the rows of Arrow columns under a secret key.
* `hash_key`: The secret key of row hashes.
* `storage`: Durable files on this machine.
* `machine`: The time, waiting, random values, and the memory of a process.
* `codec`: JSON to typed values.
* `local_path`: Resolve paths that a user writes.
* `regex_repeat`: Match repeats of a pattern without backtracking.
* `allocator`: Make the C library reuse freed memory.
* `pandas_import`: Keep pyarrow from importing pandas.
* `documentation`: Find the pages, sections and table rows of the documentation that explain words.
* `errors`: Errors with their codes, causes and fixes.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from sinkql import ast
    from sinkql.errors import SinkqlError as SinkqlError
    from sinkql.program import Program as Program
    from sinkql.session import Session as Session

__version__ = "0.1.0"
__all__ = ["Program", "Session", "SinkqlError", "__version__", "compile", "connect", "parse"]

# The functions import what they need when they are called, so that importing the package is fast.


def connect(path: str | Path | None = None) -> Session:
    """Open a catalog: a file, a URL (`sqlite:///`, `postgresql+psycopg://`), or a project's folder.

    Without a path, open the catalog that SINKQL_CATALOG names, or `.sinkql/catalog.db` in the working folder. Create
    it if it does not exist.
    """
    from sinkql.session import Session

    return Session(path)


def parse(text: str) -> tuple[ast.Statement, ...]:
    """Return the statements of a text. Raise SinkqlError with the place of a syntax error."""
    from sinkql.connector_api.registry import discover
    from sinkql.errors import SinkqlError
    from sinkql.parser import parse as parse_text
    from sinkql.script.redaction import mask

    words = discover().keywords
    try:
        return parse_text(text, words)
    except SinkqlError as error:
        masked = mask(text, words)
        raise masked.cover(error.within(path=None, text=masked.text)) from error.__cause__


def compile(  # noqa: A001 the public name
    text: str, *, facts: Mapping[str, Mapping[str, Any]] | None = None, path: str | None = None
) -> Program:
    """Return the items and jobs of a text as data, without network, Spark or a catalog file.

    `facts` holds what other systems know about items, by name, as the catalog stores it. `path` names the text in
    errors.
    """
    from sinkql.program import compile_text

    return compile_text(text, path=path, facts=facts)


def __getattr__(name: str) -> Any:
    modules = {"Program": "sinkql.program", "Session": "sinkql.session", "SinkqlError": "sinkql.errors"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(modules[name]), name)
