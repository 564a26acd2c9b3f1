"""Run the tests of mutants, given as lines of JSON: each in a process that imports SinkQL with the mutant's text."""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_TESTS = Path(__file__).parents[1]
_BEFOREHAND = (
    "pytest", "hypothesis", "numpy", "pyarrow", "pyarrow.compute", "duckdb", "msgspec", "lark", "sqlglot",
    "sqlglot.dialects.postgres", "xxhash",
)  # fmt: skip
"""Modules that take long to import and do not import SinkQL."""
_PATIENCE_S = 300
_NO_PROGRAM = ("SyntaxError", "NameError", "AttributeError", "TypeError", "ImportError")
"""Errors of a mutant that prove nothing about its tests."""


@dataclass(frozen=True)
class _Finder(MetaPathFinder):
    """Finds one module with another text than its file's."""

    name: str
    text: str

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self.name else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self.text)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class _Watching:
    """Remembers the error of the first failed test."""

    said = ""

    def pytest_exception_interact(self, node: Any, call: Any) -> None:  # Any: pytest does not export the types
        text = (str(call.excinfo.value).splitlines() or [""])[0]
        self.said = self.said or f"{call.excinfo.type.__name__}: {node.name}: {text}"


def main() -> None:
    for each in _BEFOREHAND:
        importlib.import_module(each)
    assert not any(name.partition(".")[0] == "sinkql" for name in sys.modules)
    for line in sys.stdin:
        given = json.loads(line)
        began = time.monotonic()
        kind, said = _fate(given["module"], given["text"], given["tests"])
        print(json.dumps([kind, said, time.monotonic() - began]), flush=True)


def _fate(module: str, text: str, tests: Sequence[str]) -> tuple[str, str]:
    """Return whether a mutant is killed, survived or broken, and the error of its first failed test."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _be_the_mutant(writing, module, text, tests)
    os.close(writing)
    told = b""
    with os.fdopen(reading, "rb") as pipe:
        if select.select([pipe], [], [], _PATIENCE_S)[0]:
            told = pipe.read()
        else:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not told:
        return "broken", "it did not end"
    code, loaded, said = json.loads(told)
    if not loaded or code not in (0, 1) or said.partition(":")[0] in _NO_PROGRAM:
        return "broken", f"exit code {code}, {'loaded' if loaded else 'not loaded'}: {said}"
    return ("killed" if code else "survived"), said


def _be_the_mutant(writing: int, module: str, text: str, tests: Sequence[str]) -> None:
    """Run the tests in this process, and end it."""
    import pytest

    code, said = 3, ""
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)
    sys.meta_path.insert(0, _Finder(module, text))
    watching = _Watching()
    with tempfile.TemporaryDirectory(prefix="sinkql-m-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        arguments = ["-x", "-q", "-m", "soak or not soak", "-p", "no:cacheprovider", "-p", "no:xdist"]
        arguments += ["--basetemp", f"{folder}/tests", *(str(_TESTS / each) for each in tests)]
        try:
            code, said = int(pytest.main(arguments, [watching])), watching.said
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
    loaded = isinstance(getattr(sys.modules.get(module), "__loader__", None), _Loader)
    os.write(writing, json.dumps([code, loaded, said]).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
