"""`pytest --cover`: which lines of sinkql the tests ran, by SlipCover, in every worker of pytest-xdist.

One process prints a table; workers, whose run is long, print a few lines, so that what failed is easy to find.

SlipCover writes its probes into the byte code and takes them out once they were met, where a tracer is called for each
line, which doubles the time of most tests.
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
"""The variable of the environment in which workers find where they write."""
_NEVER = 1 << 30
_HITS = 20_000
"""After so many a probe is taken out, for which SlipCover looks through the functions of all modules and threads."""


class Measured:
    """A run that counts lines: those of this process, or, where there are workers, those that they write down."""

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
        """Write down what ran so far now and then: a worker may die, which must not make its lines seem untested."""
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
        terminalreporter.write_line(f"{percent:.1f} % of the lines ran; at least {LEAST} % have to")

    def _write(self) -> None:
        assert self.slipcover is not None
        written = self.folder / f"{self.worker}.new"
        written.write_text(json.dumps(self.slipcover.get_coverage()))
        written.replace(written.with_suffix(".json"))

    def _read(self) -> dict[str, Any] | None:
        """Return what the workers wrote, if any came so far."""
        found = [json.loads(each.read_text()) for each in sorted(self.folder.glob("*.json"))]
        for other in found[1:]:
            merge_coverage(found[0], other)
        return found[0] if found else None

    def pytest_unconfigure(self) -> None:
        if self.worker is None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _let_spark_pickle(slipcover: Slipcover) -> None:
    """Let functions go to Spark's workers: before Python 3.12, probes are among a function's constants."""
    if sys.version_info < (3, 12):
        from slipcover import probe

        kind = type(probe.new(slipcover, "", 0, _NEVER))
        copyreg.pickle(kind, lambda _: (probe.new, (SimpleNamespace(newly_seen=defaultdict(set)), "", 0, _NEVER)))
