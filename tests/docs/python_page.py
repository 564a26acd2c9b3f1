"""Generate the page of the public Python API from its docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

import sinkql
import sinkql.testing
from docs.links import link
from docs.markdown_parts import bullets, code, escaped, front_matter, paragraph, table
from sinkql.session.result import Result
from sinkql.session.sink.process import RunningSinks

_HEAD = """# Python API

Look up the functions and classes of the packages `sinkql` and `sinkql.testing`.

Only the names on this page are public. All other names may change in any release.

```python
import sinkql

with sinkql.connect() as session:
    (result,) = session.execute("SELECT 1 + 1 AS two")
    print(result.columns, result.rows)
```

<!-- output -->
```text
('two',) ((2,),)
```
"""
_METHODS = {
    sinkql.Session: (
        "execute", "stream", "sinks", "jobs", "run", "up", "running", "start", "stop", "status", "source_status",
        "preview", "close",
    ),
    Result: ("sink", "arrow", "df"),
    RunningSinks: ("wait_for_commit",),
    sinkql.Program: ("to_json", "from_json", "explain"),
    sinkql.SinkqlError: ("family", "exit_code", "retryable"),
    sinkql.testing.Pipeline: (
        "insert", "upsert", "delete", "receive", "commit", "rows", "changes", "set_time", "skipped", "close",
    ),
}  # fmt: skip
_ERROR = {
    "code": "the code, for example SQ2204",
    "message": "the message",
    "span": "the place in the text: `start` and `end`, or None",
    "detail": "facts about this case, or None",
    "hint": "how to correct it, or None",
    "path": "the name of the text, or None",
}


def pages() -> dict[str, str]:
    """Return the page by its path under docs/."""
    return {"reference/python.md": "\n".join(_parts())}


def _parts() -> Iterator[str]:
    yield front_matter("library", "api", "import sinkql", "notebook", "pytest", "pandas")
    yield _HEAD
    yield "## sinkql\n"
    for name in ("connect", "parse", "compile"):
        yield from _function(f"sinkql.{name}", getattr(sinkql, name))
    yield from _class("sinkql.Session", sinkql.Session)
    yield from _class("Result", Result)
    yield from _class("RunningSinks", RunningSinks)
    yield from _class("sinkql.Program", sinkql.Program)
    yield from _class("sinkql.SinkqlError", sinkql.SinkqlError)
    yield table(("attribute", "meaning"), [(code(name), escaped(text)) for name, text in _ERROR.items()])
    yield "## sinkql.testing\n"
    yield paragraph(
        "`sinkql.testing` runs a pipeline in the process of a test, without Spark and servers. If Python cannot "
        "compute a value exactly, the error is [SQ2663](../errors/SQ2663.md)."
    )
    for name in ("load", "loads", "assert_rows"):
        yield from _function(f"sinkql.testing.{name}", getattr(sinkql.testing, name))
    yield from _class("sinkql.testing.Pipeline", sinkql.testing.Pipeline)
    yield "## See also\n"
    yield bullets(
        link(path, "reference") for path in ("how-to/embed.md", "tutorials/test-a-pipeline.md", "errors/index.md")
    )


def _function(name: str, function: Any) -> Iterator[str]:
    yield f"### {name}\n"
    yield _signature(name, function)
    yield from _paragraphs(function)


def _class(name: str, kind: type) -> Iterator[str]:
    yield f"### {name}\n"
    yield from _paragraphs(kind)
    if dataclasses.is_dataclass(kind):
        fields = [each for each in dataclasses.fields(kind) if not each.name.startswith("_")]
        yield table(("field", "type"), [(code(each.name), code(str(each.type))) for each in fields])
    for method in _METHODS[kind]:
        found = inspect.getattr_static(kind, method)
        yield f"#### {name.removeprefix('sinkql.').removeprefix('testing.')}.{method}\n"
        if not isinstance(found, property):
            yield _signature(method, getattr(kind, method))
        yield from _paragraphs(found.fget if isinstance(found, property) else getattr(kind, method))


def _signature(name: str, function: Any) -> str:
    text = re.sub(r"^\((?:self|cls)(?:, )?", "(", str(inspect.signature(function)).replace("'", ""))
    lines = f"{name}{text}"
    if len(lines) > 100:
        head, _, rest = lines.partition("(")
        inside, _, result = rest.rpartition(")")
        parameters = "".join(f"    {each},\n" for each in _split(inside))
        lines = f"{head}(\n{parameters}){result}"
    return f"```text\n{lines}\n```\n"


def _split(text: str) -> list[str]:
    """Return the parameters of a signature."""
    parts, depth, last = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "[(") - (sign in ")]")
        if sign == "," and depth == 0:
            parts.append(text[last:place].strip())
            last = place + 1
    return [*parts, text[last:].strip()]


def _paragraphs(found: Any) -> Iterator[str]:
    for part in inspect.cleandoc(found.__doc__ or "").split("\n\n"):
        yield paragraph(escaped(" ".join(part.split())))
