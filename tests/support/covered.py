"""`pytest --cover`: the lines of sinkql that the tests ran, counted by SlipCover, in all workers of pytest-xdist.

A run in one process prints a table. A run with workers is long, so it prints only a few lines, and failures stay easy
to find.

SlipCover writes probes into the byte code and removes each one that was hit. A tracer would be called for each line,
and most tests would take twice as long.
"""

from __future__ import annotations

import copyreg
import io
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from slipcover import FileMatcher, ImportManager, Slipcover, merge_coverage
from slipcover.slipcover import print_coverage

LEAST = 92
"""Percent of the lines."""
_PACKAGE = Path(__file__).parents[2] / "sinkql"
_NOT_COUNTED = [r"class .*\(Protocol\):", "@overload"]
_WIDTH = 60
_LISTED = 20
_OFTEN = 200
_FOLDER = "SINKQL_COVERAGE"
"""The environment variable by which workers find the folder for their files."""
_NEVER = 1 << 30
_HITS = 20_000
"""Hits after which a probe is removed; for that, SlipCover searches the functions of all modules and threads."""


class Measured:
    """A test run that counts lines: in this process, or in its workers, which report lines in files."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.found: dict[str, Any] | None = None
        self.slipcover: Slipcover | None = None
        self.worker = os.environ.get("PYTEST_XDIST_WORKER")
        self.alone = self.worker is None and "-n" not in config.invocation_params.args
        if self.worker is None:
            os.environ[_FOLDER] = tempfile.mkdtemp(prefix="coverage")
        self.folder = Path(os.environ[_FOLDER])
        self.run = 0
        if self.worker is not None or self.alone:
            self.slipcover = Slipcover(exclude_also=_NOT_COUNTED, d_miss_threshold=_HITS)
            _let_spark_pickle(self.slipcover)
            ImportManager(self.slipcover, FileMatcher(sources=[_PACKAGE])).__enter__()

    def pytest_runtest_logfinish(self) -> None:
        """Store the result now and then: a worker may die, and the lines that it ran must still count."""
        self.run += 1
        if self.worker is not None and self.run % _OFTEN == 0:
            self._write()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        if self.worker is not None:
            self._write()
            return result
        found = self._read() if self.slipcover is None else self.slipcover.get_coverage()
        if found is None:
            return result
        unseen = Slipcover(source=[str(_PACKAGE)], omit=list(found["files"]), exclude_also=_NOT_COUNTED)
        merge_coverage(found, unseen.get_coverage())
        self.found = found
        if found["summary"]["percent_covered"] < LEAST:
            session.testsfailed += 1
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found is None:
            return
        terminalreporter.section("coverage")
        if self.alone:
            table = io.StringIO()
            print_coverage(self.found, outfile=table, missing_width=_WIDTH, skip_covered=True)
            terminalreporter.write_line(table.getvalue())
        else:
            missing = {name: len(file["missing_lines"]) for name, file in self.found["files"].items()}
            for name in sorted(missing, key=lambda name: -missing[name])[:_LISTED]:
                terminalreporter.write_line(f"{missing[name]:6} lines of {name} did not run")
        percent = self.found["summary"]["percent_covered"]
        terminalreporter.write_line(f"{percent:.1f} % of the lines ran; at least {LEAST} % must")

    def _write(self) -> None:
        assert self.slipcover is not None
        written = self.folder / f"{self.worker}.new"
        written.write_text(json.dumps(self.slipcover.get_coverage()))
        written.replace(written.with_suffix(".json"))

    def _read(self) -> dict[str, Any] | None:
        """Return what the workers have written; None if nothing."""
        found = [json.loads(each.read_text()) for each in sorted(self.folder.glob("*.json"))]
        for other in found[1:]:
            merge_coverage(found[0], other)
        return found[0] if found else None

    def pytest_unconfigure(self) -> None:
        if self.worker is None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _let_spark_pickle(slipcover: Slipcover) -> None:
    """Make functions picklable for Spark's workers: before Python 3.12, probes are constants of a function."""
    if sys.version_info < (3, 12):
        from slipcover import probe

        kind = type(probe.new(slipcover, "", 0, _NEVER))
        copyreg.pickle(kind, lambda _: (probe.new, (SimpleNamespace(newly_seen=defaultdict(set)), "", 0, _NEVER)))
