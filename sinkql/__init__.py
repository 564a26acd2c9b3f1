"""SinkQL: Materialize-style SQL into exactly-once Apache Iceberg pipelines on PySpark.

* `connect`: a catalog of items and sinks, to run statements against.
* `compile`: a text to its jobs, as data.
* `parse`: a text to its syntax.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from sinkql import ast
    from sinkql.errors import SinkqlError as SinkqlError
    from sinkql.program import Program as Program
    from sinkql.session import Session as Session

__version__ = "0.1.0"
__all__ = ["Program", "Session", "SinkqlError", "__version__", "compile", "connect", "parse"]

# What the functions need is imported when they are called: importing the package costs next to nothing.


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

    words = discover().vocabulary
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
    from importlib import import_module

    return getattr(import_module(modules[name]), name)
